"""What jobs survive: faults at seeded random moments, and whether anything of them is seen in the weights.

    export PYTHONPATH=tests/python  # machines of the tests
    python benchmarks/chaos.py [--workers 2] [--faults 30] [--per-job 5] [--minutes 60] [--seed 0]
        [--mistakes N] [--set-clock] [--only KIND]...

An undisturbed job is run first; then jobs with the same seed by `tfmuster launch --max-restarts`, in each of
which some worker, the chief among them, is hit again and again:

- SIGKILL or SIGSTOP; SIGTERM or SIGUSR1, also to the launcher, after which a job that trains is saved and
  ends, and is started again; an exception or `os._exit` in its training; an exception after it has changed
  its title and left a daemon with an empty environment; no more file descriptors;
- SIGKILL to two workers at once;
- a full disk under its checkpoints, whose room comes back when the fault has been named; also while the
  launcher gets SIGTERM, so that the last checkpoint can't be written and the one before has to do;
- nobody reads the launcher's output any more; another user sends to TensorFlow's port what a client of gRPC
  sends;
- with --set-clock, the clock of this machine, for all its programs, is set forward or back by 3 s, and
  afterwards set right again.

- SIGTERM to what is neither launcher nor worker: the launcher's guard, and a spare process. Every other job
  has those (`--warm`).

Every second job runs by ssh on machines of its own, which are network namespaces. What happens to half of
these is that the link of one or two machines goes down, until that has been named, and SIGTERM to a proxy, an
ssh, an agent, the ssh server's process for it, or a spare process there. The others share no folder, have
`--min-workers 1` and `--grow`, and lose hosts: one or two at once for good, or one that comes back when the
job has continued without it.

Before that, each of the mistakes and surroundings of chaos_mistakes.py gets N jobs of its own (`--mistakes`,
by default one each): a script that launches itself, a proxy in the environment, a worker that exits with 0 or
hangs before its model exists, a report of torn files, a FIFO and a sparse file in the folder of runs, a run
directory that is renamed meanwhile, /proc hidden, the loopback device down, output through `head`, a hostfile
that is missing, and Ctrl-C during imports. These are survived if the job ends in time, with the right code
and sentence, or trains, and no process is left.

Half of the moments are in the start of an attempt, half in its training. A fault is survived if the launcher
names that worker and starts all again, if the job says that it was saved or, told on a full disk, that it was
not, or ended before it trained, and resumes when it is launched again, or if it does no harm at all, and the
run is never called lost. Full disks, links, other users and the clock need root on Linux.

Exits with 1 unless every fault is survived, named within 10 s (SIGSTOP, descriptors: 20 s) or saved within 30
s, every final weight is bitwise that of the undisturbed job (of a job that had fewer workers for a while:
within 1e-5, in float64), no stranger was answered, and no process is left.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil
from chaos_job import (
    ANYWHERE,
    CLOCK,
    FULL_DISK,
    FULL_TOLD,
    HERE,
    KINDS,
    LINKS,
    MEMBERS,
    Fault,
    Job,
)
from chaos_mistakes import MISTAKES, NEED_ROOT, tried


def left_behind(folder: Path) -> list[int]:
    """The processes that work in the folder of a job, or name it on their command line."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if any(str(folder) in word for word in [process.cwd(), *process.cmdline()]):
                found.append(process.pid)
    return found


def try_mistake(kind: str, folder: Path) -> bool:
    """Return whether the job of a mistake survives and leaves nothing, and print it."""
    survived, seconds, said = tried(kind, folder)
    left = left_behind(folder)
    survived = survived and not left
    line = {"kind": kind, "survived": survived, "seconds": round(seconds, 1), "left": len(left)}
    print(json.dumps(line), flush=True)
    if not survived:
        print(said, file=sys.stderr)
    return survived


def weights(folder: Path, workers: int) -> list[list[np.ndarray]]:
    found = []
    for index in range(workers):
        with np.load(folder / f"final-{index}.npz") as file:
            found.append([file[name] for name in sorted(file.files)])
    return found


def equal(one: list[np.ndarray], other: list[np.ndarray], within: float) -> bool:
    pairs = list(zip(one, other, strict=True))
    if within:
        return all(np.abs(a - b).max() <= within for a, b in pairs)
    return all(a.tobytes() == b.tobytes() for a, b in pairs)


def report(faults: list[Fault], same: int, finals: int, lost: int, left: int) -> int:
    survived = sum(fault.survived for fault in faults) - lost
    slow = 0
    print(f"faults survived/injected: {survived}/{len(faults)}")
    for kind in KINDS:
        hits = [fault for fault in faults if fault.kind == kind]
        seconds = [fault.seconds for fault in hits if fault.seconds is not None]
        slow += sum(fault.seconds is not None and fault.seconds > fault.limit for fault in hits)
        if hits:
            times = (
                f"median {statistics.median(seconds):.1f} s, worst {max(seconds):.1f} s" if seconds else ""
            )
            harmless = f", {len(hits) - len(seconds)} without effect" if len(hits) > len(seconds) else ""
            print(f"  {kind:<16} {len(hits):>3}{harmless}; from the fault to its name: {times or '-'}")
    everything = [fault.seconds for fault in faults if fault.seconds is not None]
    if everything:
        print(f"  all: median {statistics.median(everything):.1f} s, worst {max(everything):.1f} s")
    print(f"final weights equal to the undisturbed job's: {same}/{finals}")
    print(f"processes left behind: {left}")
    return int(survived < len(faults) or slow > 0 or same < finals or left > 0)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--faults", type=int, default=30)
    parser.add_argument("--per-job", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=60.0, help="no new fault after that")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--mistakes", type=int, default=1, help="how often each mistake is tried")
    parser.add_argument("--set-clock", action="store_true", help="set this machine's clock, too")
    parser.add_argument(
        "--only", action="append", choices=(*MISTAKES, *KINDS), help="this kind of fault; repeatable"
    )
    given = parser.parse_args()
    from support.hosts import built, why_not

    choose = random.Random(given.seed)
    end = time.monotonic() + 60 * given.minutes
    faults: list[Fault] = []
    same = finals = lost = left = 0
    if reason := why_not():
        print(f"no full disk, no link down and no stranger: {reason}")
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        harmed = sum(
            not try_mistake(kind, folder / f"mistake-{number}-{turn}")
            for number, kind in enumerate(MISTAKES)
            if (given.only is None or kind in given.only) and not (reason and kind in NEED_ROOT)
            for turn in range(given.mistakes)
        )
        if given.only is not None and not {*given.only} & {*KINDS}:
            return int(harmed > 0)
        network = None if reason else stack.enter_context(built(folder / "network"))

        @functools.cache
        def expected(members: bool) -> list[np.ndarray]:
            where = network if members else None
            calm = Job(folder / f"undisturbed-{members}", given.workers, 0, where, members=members)
            calm.process.wait(timeout=600)
            calm.close()
            return weights(calm.folder, given.workers)[0]

        turn = 0
        while len(faults) < given.faults and time.monotonic() < end:
            turn += 1
            here = [*ANYWHERE, *([] if reason else HERE), *[CLOCK] * given.set_clock]
            by_ssh = network is not None and turn % 2 == 0
            members = by_ssh and turn % 4 == 0
            kinds = [
                kind
                for kind in (MEMBERS if members else LINKS if by_ssh else here)
                if given.only is None or kind in given.only
            ]
            if not kinds:
                continue
            job = Job(
                folder / f"job-{turn}",
                given.workers,
                given.per_job,
                network if by_ssh else None,
                warm=turn % 8 > 3,
                members=members,
            )
            for _ in range(given.per_job):
                kind, training = choose.choice(kinds), choose.random() < 0.5
                worker, other = choose.sample(range(given.workers), 2)
                delay = choose.uniform(0, 3 if training else 8)
                if kind in (FULL_DISK, FULL_TOLD):
                    # Only the chief writes checkpoints, and it finds the disk full when it does.
                    worker, training = 0, True
                fault = Fault(kind, worker, other, training, delay)
                if len(faults) == given.faults or time.monotonic() > end or not job.strike(fault):
                    break
                faults.append(fault)
                print(json.dumps({**vars(fault), "seconds": fault.seconds}), flush=True)
            failed = job.process.wait(timeout=600)
            if pids := left_behind(folder / f"job-{turn}"):
                left += len(pids)
                print(f"left behind: {[psutil.Process(pid).cmdline() for pid in pids]}", file=sys.stderr)
            job.close()
            if failed:
                lost += 1
                print(job.said, file=sys.stderr)
                continue
            found = weights(job.folder, len(job.run.info()["cluster"]["worker"]))
            finals += len(found)
            same += sum(equal(each, expected(members), 1e-5 if members else 0) for each in found)
    return max(report(faults, same, finals, lost, left), int(harmed > 0))


if __name__ == "__main__":
    raise SystemExit(main())

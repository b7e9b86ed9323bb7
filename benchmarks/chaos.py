"""What jobs survive: faults at seeded random moments, and whether anything of them is seen in the weights.

    export PYTHONPATH=tests/python  # machines of the tests
    python benchmarks/chaos.py [--workers 2] [--faults 30] [--per-job 5] [--minutes 60] [--seed 0]
        [--set-clock]

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

Every fourth job runs by ssh on machines of its own, which are network namespaces, and what happens to it is
that the link of one or two machines goes down, until that has been named. Half of the moments are in the
start of an attempt, half in its training. A fault is survived if the launcher names that worker and starts
all again, if the job says that it was saved or, told on a full disk, that it was not, or ended before it
trained, and resumes when it is launched again, or if it does no harm at all, and the run is never called
lost. Full disks, links, other users and the clock need root on Linux.

Exits with 1 unless every fault is survived, named within 10 s (SIGSTOP, descriptors: 20 s), every final
weight is bitwise that of the undisturbed job, no stranger was answered, and no process is left.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from chaos_worker import CHECKPOINTS

from tfmuster.runs.run import Run

SIGNALS = ("SIGKILL", "SIGSTOP", "SIGTERM", "SIGUSR1")
ORDERS = ("exception", "os._exit", "title and daemon", "descriptors")
CLOSED_OUTPUT, STRANGER, FULL_DISK, LINK_DOWN = "closed output", "stranger", "full disk", "link down"
TWO, TWO_LINKS, FULL_TOLD = "two at once", "two links down", "full disk, told"
CLOCK = "clock set"
#: SIGTERM to the launcher itself.
TOLD_LAUNCHER = "launcher told"
#: What needs nothing of the machine.
ANYWHERE = (*SIGNALS, TOLD_LAUNCHER, TWO, *ORDERS, CLOSED_OUTPUT)
#: What needs root.
HERE = (STRANGER, FULL_DISK, FULL_TOLD)
LINKS = (LINK_DOWN, TWO_LINKS)
KINDS = (*ANYWHERE, *HERE, *LINKS, CLOCK)
#: By how much the clock is set forward or back, seconds.
STEP = 3.0
#: A worker without file descriptors goes on until it needs one.
LIMITS = {"SIGSTOP": 20.0, "descriptors": 20.0}
LIMIT = 10.0
#: How long beyond its limit a fault may go unnoticed before it counts as one without effect, seconds.
PATIENCE = 5.0
WORKER = Path(__file__).resolve().with_name("chaos_worker.py")


def left_behind(folder: Path) -> list[int]:
    """The processes that work in the folder of a job, or name it on their command line."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if any(str(folder) in word for word in [process.cwd(), *process.cmdline()]):
                found.append(process.pid)
    return found


@dataclass
class Fault:
    """One fault, and what came of it."""

    kind: str
    worker: int
    other: int
    training: bool
    delay: float
    at: float = 0.0
    named: float | None = None
    text: str = ""
    served: bool = False
    lost: bool = False
    saved: bool = False

    @property
    def seconds(self) -> float | None:
        return None if self.named is None else self.named - self.at

    @property
    def survived(self) -> bool:
        hit = (self.worker, self.other) if self.kind in (TWO, TWO_LINKS) else (self.worker,)
        named = self.saved or any(f"worker {worker} on " in self.text for worker in hit)
        return not (self.served or self.lost) and (self.named is None or named)


class Job:
    """A job under faults; `lines` are those of the launcher that announce a restart, with their times."""

    def __init__(self, folder: Path, workers: int, restarts: int, network: Any = None) -> None:
        folder.mkdir()
        self.network = network
        self.run = Run(folder / "run")
        self.disk = folder / CHECKPOINTS
        self.disk.mkdir()
        self.mounted = os.geteuid() == 0 and network is None
        if self.mounted:
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "none", self.disk], check=True)
        hosts = ",".join(f"node{i + 1}" for i in range(workers))
        where = (
            ["-n", str(workers)] if network is None else ["-H", hosts, "--ssh-config", str(network.config)]
        )
        prefix = [] if network is None else ["ip", "netns", "exec", network.here]
        self.said = ""
        self._command = [
            *(*prefix, sys.executable, "-m", "tfmuster", "launch", *where, "--only-chief"),
            *("--max-restarts", str(restarts), "--run-dir", str(self.run.path)),
            *(str(WORKER), "train", str(folder)),
        ]
        self._directory = folder if network is None else network.work
        self.start()

    def start(self) -> None:
        """Start the job, or start it again after it was saved."""
        for path in (*self.run.path.glob("training-*"), *self.run.path.glob("order-*")):
            path.unlink()
        self.lines: list[tuple[float, str]] = []
        self.process = subprocess.Popen(
            self._command,
            cwd=self._directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.reads = True
        for read in (self._read, self._drain):
            threading.Thread(target=read, args=[self.process], daemon=True).start()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        for line in process.stderr:
            self.said += line
            if re.search(r"; restart \d+ of \d+$", line.rstrip()):
                self.lines.append((time.monotonic(), line.rstrip()))

    def _drain(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        while self.reads and process.stdout.readline():
            pass
        process.stdout.close()

    def close(self) -> None:
        """Give the disk of the checkpoints back."""
        if self.mounted:
            subprocess.run(["umount", self.disk], check=True)

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    def pids(self, attempt: int) -> list[int]:
        """The processes of an attempt, or none yet."""
        status = self.run.status()
        if status["restarts"] != attempt or status["state"] != "running":
            return []
        return [entry["pid"] for entry in status["tasks"].values()]

    def wait(self, happened: Any, seconds: float) -> bool:
        """Whether something happens before the job ends or the time is over."""
        end = time.monotonic() + seconds
        while not happened():
            if self.ended or time.monotonic() > end:
                return bool(happened())
            time.sleep(0.02)
        return True

    def strike(self, fault: Fault) -> bool:
        """Inject a fault and see what comes of it; False if the job was over before."""
        attempt = len(self.lines)
        path = self.run.path
        if not self.wait(lambda: self.pids(attempt), 30):
            return False
        if fault.training and not self.wait((path / f"training-{attempt}").exists, 60):
            return False
        time.sleep(fault.delay)
        if self.ended or (path.parent / f"final-{fault.worker}.npz").exists():
            return False
        with contextlib.ExitStack() as repairs:
            if not self._inject(fault, attempt, repairs):
                return False
            if self.wait(lambda: len(self.lines) > attempt, LIMITS.get(fault.kind, LIMIT) + PATIENCE):
                fault.named, fault.text = self.lines[attempt]
            elif self.ended and self.run.status()["state"] in (
                ("failed", "interrupted") if fault.kind == FULL_TOLD else ("preempted", "interrupted")
            ):
                # Before a training begins, there is nothing to save.
                fault.saved, fault.named, fault.text = True, time.monotonic(), self.said[-200:]
                self.start()
            fault.lost = self.run.status()["state"] == "lost"
        return True

    def _inject(self, fault: Fault, attempt: int, repairs: contextlib.ExitStack) -> bool:
        """Do it, and note the time; False if there was nothing to do it to."""
        if fault.kind in SIGNALS:
            fault.at = time.monotonic()
            try:
                os.kill(self.pids(attempt)[fault.worker], signal.Signals[fault.kind])
            except (ProcessLookupError, IndexError):
                return False
        elif fault.kind == TWO:
            fault.at = time.monotonic()
            try:
                pids = self.pids(attempt)
                for worker in (fault.worker, fault.other):
                    os.kill(pids[worker], signal.SIGKILL)
            except (ProcessLookupError, IndexError):
                return False
        elif fault.kind == TOLD_LAUNCHER:
            fault.at = time.monotonic()
            self._tell_launcher()
        elif fault.kind in ORDERS:
            return self._order(fault, attempt)
        elif fault.kind == CLOSED_OUTPUT:
            fault.at, self.reads = time.monotonic(), False
        elif fault.kind == STRANGER:
            fault.at = time.monotonic()
            address = json.loads((self.run.path / "run.json").read_text())["cluster"]["worker"][fault.worker]
            command = [sys.executable, WORKER, "stranger", *address.rsplit(":", 1)]
            said = subprocess.run(command, capture_output=True, text=True, check=False)
            fault.served = "served" in said.stdout
        elif fault.kind == CLOCK:
            fault.at, step = time.monotonic(), STEP if fault.worker % 2 else -STEP
            set_clock(step)
            repairs.callback(set_clock, -step)
        elif fault.kind in LINKS:
            fault.at = time.monotonic()
            for worker in (fault.worker, fault.other)[: 1 + (fault.kind == TWO_LINKS)]:
                self.network.cut(f"node{worker + 1}")
                repairs.callback(self.network.connect, f"node{worker + 1}")
        else:
            filler = self.disk / "filler"
            repairs.callback(filler.unlink)
            fault.at = time.monotonic()
            with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(1 << 16))
            if fault.kind == FULL_TOLD:
                self._tell_launcher()
        return True

    def _tell_launcher(self) -> None:
        psutil.Process(int(self.run.info()["pid"])).terminate()

    def _order(self, fault: Fault, attempt: int) -> bool:
        order = self.run.path / f"order-{attempt}-{fault.worker}"
        order.with_suffix(".part").write_text(fault.kind)
        order.with_suffix(".part").replace(order)

        def obeyed() -> bool:
            return order.read_text() not in ("", fault.kind)

        if not self.wait(obeyed, 60):
            return False
        fault.at = float(order.read_text())
        return True


def set_clock(step: float) -> None:
    """Set the clock of this machine forward or back, by seconds."""
    time.clock_settime(time.CLOCK_REALTIME, time.time() + step)


def weights(folder: Path, workers: int) -> list[list[np.ndarray]]:
    found = []
    for index in range(workers):
        with np.load(folder / f"final-{index}.npz") as file:
            found.append([file[name] for name in sorted(file.files)])
    return found


def equal(one: list[np.ndarray], other: list[np.ndarray]) -> bool:
    return all(a.tobytes() == b.tobytes() for a, b in zip(one, other, strict=True))


def report(faults: list[Fault], same: int, finals: int, lost: int, left: int) -> int:
    survived = sum(fault.survived for fault in faults) - lost
    slow = 0
    print(f"faults survived/injected: {survived}/{len(faults)}")
    for kind in KINDS:
        hits = [fault for fault in faults if fault.kind == kind]
        seconds = [fault.seconds for fault in hits if fault.seconds is not None]
        slow += sum(each > LIMITS.get(kind, LIMIT) for each in seconds)
        if hits:
            times = (
                f"median {statistics.median(seconds):.1f} s, worst {max(seconds):.1f} s" if seconds else ""
            )
            harmless = f", {len(hits) - len(seconds)} without effect" if len(hits) > len(seconds) else ""
            print(f"  {kind:<16} {len(hits):>3}{harmless}; from the fault to its name: {times or '-'}")
    everything = [fault.seconds for fault in faults if fault.seconds is not None]
    if everything:
        print(f"  all: median {statistics.median(everything):.1f} s, worst {max(everything):.1f} s")
    print(f"final weights bitwise equal to the undisturbed job's: {same}/{finals}")
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
    parser.add_argument("--set-clock", action="store_true", help="set this machine's clock, too")
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
        network = None if reason else stack.enter_context(built(folder / "network"))
        calm = Job(folder / "undisturbed", given.workers, 0)
        stack.callback(calm.close)
        calm.process.wait(timeout=600)
        expected = weights(calm.run.path.parent, given.workers)[0]
        turn = 0
        while len(faults) < given.faults and time.monotonic() < end:
            turn += 1
            by_ssh = network is not None and turn % 4 == 2
            here = [*ANYWHERE, *([] if reason else HERE), *[CLOCK] * given.set_clock]
            kinds = LINKS if by_ssh else here
            job = Job(folder / f"job-{turn}", given.workers, given.per_job, network if by_ssh else None)
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
            found = weights(job.run.path.parent, given.workers)
            finals += len(found)
            same += sum(equal(each, expected) for each in found)
    return report(faults, same, finals, lost, left)


if __name__ == "__main__":
    raise SystemExit(main())

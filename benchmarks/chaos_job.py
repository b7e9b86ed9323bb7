"""The job that chaos.py runs, and the faults that it injects."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from chaos_worker import CHECKPOINTS

from tfmuster.tracking.run import Run

SIGNALS = ("SIGKILL", "SIGSTOP", "SIGTERM", "SIGUSR1")
ORDERS = ("exception", "os._exit", "title and daemon", "descriptors")
CLOSED_OUTPUT, STRANGER, FULL_DISK, LINK_DOWN = "closed output", "stranger", "full disk", "link down"
TWO, TWO_LINKS, FULL_TOLD = "two at once", "two links down", "full disk, told"
CLOCK = "clock set"
#: SIGTERM to the launcher itself, and to others that are no workers.
TOLD_LAUNCHER = "launcher told"
TOLD_HERE = ("guard told", "spare told")
TOLD_THERE = ("proxy told", "ssh told", "agent told", "sshd told", "spare agent told")
#: Hosts that the job goes on without.
GONE, TWO_GONE, BACK = "host gone", "two hosts gone", "host back"
MEMBERS = (GONE, TWO_GONE, BACK)
#: What needs nothing of the machine.
ANYWHERE = (*SIGNALS, TOLD_LAUNCHER, *TOLD_HERE, TWO, *ORDERS, CLOSED_OUTPUT)
#: What needs root.
HERE = (STRANGER, FULL_DISK, FULL_TOLD)
LINKS = (LINK_DOWN, TWO_LINKS, *TOLD_THERE)
KINDS = (*ANYWHERE, *HERE, *LINKS, *MEMBERS, CLOCK)
#: By how much the clock is set forward or back, seconds.
STEP = 3.0
#: How long a job may take to continue without a host, or with one more, seconds.
MEMBER_SECONDS = 60.0
#: Lines of the launcher that announce another attempt.
AGAIN = re.compile(r"; restart \d+ of \d+$|; the workers write a checkpoint and start again$")
#: A worker without file descriptors goes on until it needs one.
LIMITS = {"SIGSTOP": 20.0, "descriptors": 20.0}
LIMIT = 10.0
#: How long a job that is told to go may write its last checkpoint, in seconds.
GRACE = 30.0
SAVED = ("SIGTERM", "SIGUSR1", TOLD_LAUNCHER, FULL_TOLD)
#: How long beyond its limit a fault may go unnoticed before it counts as one without effect, seconds.
PATIENCE = 5.0
WORKER = Path(__file__).resolve().with_name("chaos_worker.py")


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
    hosts: list[str] = field(default_factory=list)
    served: bool = False
    lost: bool = False
    saved: bool = False

    @property
    def seconds(self) -> float | None:
        return None if self.named is None else self.named - self.at

    @property
    def limit(self) -> float:
        """After how many seconds it must have been named, or the last checkpoint written."""
        return GRACE if self.saved else LIMITS.get(self.kind, LIMIT)

    @property
    def survived(self) -> bool:
        hit = (self.worker, self.other) if self.kind in (TWO, TWO_LINKS) else (self.worker,)
        # Which worker's process that was, or who has which number without a host, is not known.
        hit = range(99) if self.kind in (*TOLD_THERE, *MEMBERS) else hit
        named = self.saved or any(f"worker {worker} on " in self.text for worker in hit)
        return not (self.served or self.lost) and (self.named is None or named)


class Job:
    """A job under faults; `lines` are those of the launcher that announce a restart, with their times."""

    def __init__(
        self,
        folder: Path,
        workers: int,
        restarts: int,
        network: Any = None,
        *,
        warm: bool = False,
        members: bool = False,
    ) -> None:
        folder.mkdir()
        self.folder = folder
        self.network = network
        self.members = members
        # The directory of the machines' work is not shared.
        self.run = Run(network.work / "runs" / folder.name if members else folder / "run")
        self.disk = folder / CHECKPOINTS
        self.disk.mkdir()
        self.mounted = os.geteuid() == 0 and network is None
        if self.mounted:
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "none", self.disk], check=True)
        hosts = ",".join(f"node{i + 1}" for i in range(workers))
        where = (
            ["-n", str(workers)] if network is None else ["-H", hosts, "--ssh-config", str(network.config)]
        )
        if members and restarts:
            where += ["--min-workers", "1", "--rejoin-timeout", "1", "--grow", "1"]
        if warm:
            where.append("--warm")
        prefix = [] if network is None else ["ip", "netns", "exec", network.here]
        self.said = ""
        self._command = [
            *(*prefix, sys.executable, "-m", "tfmuster", "launch", *where, "--only-chief"),
            *("--max-restarts", str(restarts), "--run-dir", str(self.run.path)),
            *(str(WORKER), "train", str(folder), *["copied"] * members),
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
            if AGAIN.search(line.rstrip()):
                self.lines.append((time.monotonic(), line.rstrip()))

    def _drain(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        while self.reads and process.stdout.readline():
            pass
        process.stdout.close()

    def close(self) -> None:
        """Give the disk of the checkpoints back, and connect all hosts again."""
        if self.mounted:
            subprocess.run(["umount", self.disk], check=True)
        for host in self.network.machines if self.members else ():
            self._connect(host)

    def _connect(self, host: str) -> None:
        self.network.connect(host)
        # An ssh server that was cut off does not know it.
        self.network.drop_logins(host)

    @property
    def hosts(self) -> list[str]:
        """The hosts of this attempt."""
        return [address.split(":")[0] for address in self.run.info()["cluster"]["worker"]]

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
        if self.ended or (self.folder / f"final-{fault.worker}.npz").exists():
            return False
        with contextlib.ExitStack() as repairs:
            if not self._inject(fault, attempt, repairs):
                return False
            limit = GRACE if fault.kind in SAVED else fault.limit
            if self.wait(lambda: len(self.lines) > attempt, limit + PATIENCE):
                fault.named, fault.text = self.lines[attempt]
            elif self.ended and self.run.status()["state"] in (
                "preempted",
                "interrupted",
                *["failed"] * (fault.kind == FULL_TOLD),
            ):
                # Before a training begins, and right after a checkpoint, there is nothing to save.
                fault.saved, fault.named, fault.text = True, time.monotonic(), self.said[-200:]
                self.start()
            fault.lost = self.run.status()["state"] == "lost"
            if fault.kind in MEMBERS and fault.named is not None:
                fault.lost |= not self._goes_on(fault, attempt)
        return True

    def _goes_on(self, fault: Fault, attempt: int) -> bool:
        """Whether the job continues without the hosts of a fault, and with one that comes back."""
        lost = fault.hosts

        def without() -> bool:
            # An attempt in which another host seems to be lost, too, is followed by one more.
            restarts = self.run.status()["restarts"]
            return restarts > attempt and bool(self.pids(restarts)) and not set(lost) & set(self.hosts)

        if not self.wait(without, MEMBER_SECONDS):
            print(f"not without {lost} within {MEMBER_SECONDS:.0f} s:\n{self.said}", file=sys.stderr)
            return False
        if fault.kind != BACK:
            return True
        for host in lost:
            self._connect(host)
        again = self.wait(lambda: len(self.lines) > attempt + 1, MEMBER_SECONDS)
        # It may train to its end meanwhile.
        back = (again and self.wait(lambda: set(lost) <= set(self.hosts), MEMBER_SECONDS)) or self.ended
        if not back:
            print(f"not with {lost} within {MEMBER_SECONDS:.0f} s:\n{self.said}", file=sys.stderr)
        return back

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
        elif fault.kind in (*TOLD_HERE, *TOLD_THERE):
            fault.at = time.monotonic()
            return self._tell(fault)
        elif fault.kind in MEMBERS:
            here = self.hosts
            count = 1 + (fault.kind == TWO_GONE)
            if len(here) <= count:
                return False
            first = fault.worker % len(here)
            fault.hosts = (here[first:] + here[:first])[:count]
            fault.at = time.monotonic()
            for host in fault.hosts:
                self.network.cut(host)
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

    def _tell(self, fault: Fault) -> bool:
        """Send SIGTERM to a process that is neither launcher nor worker."""
        found = self._helpers(fault.kind.removesuffix(" told"), f"node{fault.worker + 1}")
        if found:
            with contextlib.suppress(psutil.Error):
                found[fault.worker % len(found)].terminate()
        return bool(found)

    def _helpers(self, kind: str, host: str) -> list[psutil.Process]:
        """The processes of a kind: those of the launcher, or those on a host."""
        launcher = psutil.Process(int(self.run.info()["pid"]))
        marks = {
            "guard": "end_orphans",
            "proxy": "tfmuster.launcher.remote.proxy",
            "ssh": "BatchMode=yes",
        }
        found = []
        if kind in marks:
            for process in launcher.children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    words = process.cmdline()
                    if any(marks[kind] in word for word in words) and (kind == "ssh") == (
                        words[0][-3:] == "ssh"
                    ):
                        found.append(process)
            return found
        if self.network is None:
            processes = launcher.children(recursive=True)
        else:
            numbers = [int(line.split(":")[0]) for line in self.network.machines[host].processes()]
            processes = [psutil.Process(number) for number in numbers if psutil.pid_exists(number)]
        for process in processes:
            with contextlib.suppress(psutil.Error):
                words, waits = " ".join(process.cmdline()), process.environ().get("TFMUSTER_WARM")
                agent = "tfmuster.launcher.remote.agents.agent" in words and words.startswith(sys.executable)
                login = words.startswith("sshd: ") and "listener" not in words
                if {"spare": waits, "spare agent": waits, "agent": agent, "sshd": login}[kind]:
                    found.append(process)
        return found

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

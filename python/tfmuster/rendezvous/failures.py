"""Describe lost, silent and failed processes as failures, and this process as failures name it."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import time
from typing import Final

import psutil

from ..environment import stall_timeout
from ..net.channel import Message
from ..net.ports import SILENT_SECONDS
from ..system.terminal_text import bounded_text

#: Kind of a failure of a task that the others wait for. The task itself may be unable to report it.
STALLED: Final = "stalled"
#: A process is busy if it uses this share of a core.
_BUSY_SHARE: Final = 0.03
_REPORTED = re.compile(r"tfmuster: (?:chief|worker|ps|evaluator) \d+ \(host .+, pid \d+\) failed: ")


def disappeared(why: str) -> Message:
    """Describe a connection that ended as a failure of the other side, by the reason in `Connection.why`.

    Its age counts from the loss: others notice a lost machine only after `SILENT_SECONDS`, and its failure
    may have caused theirs meanwhile.
    """
    if why in ("hung up", "connection reset by peer"):
        message, age = "its process ended or was killed", 0.0
    else:
        message, age = "its machine is down or cut off from the network", float(SILENT_SECONDS)
    return {"kind": "disappeared", "message": f"disappeared: {message}", "age": age}


def failure_text(failure: Message) -> str:
    """Say a failure in one line: ``worker 1 (host b, pid 12) failed: ValueError: no such layer``."""
    verb = "" if failure["kind"] in ("disappeared", STALLED) else "failed: "
    return f"{failure['task']} (host {failure['host']}, pid {failure['pid']}) {verb}{failure['message']}"


def repeats_failure(line: str) -> bool:
    """Return whether a worker has written, with `failure_text`, a failure that its launcher prints, too."""
    return bool(_REPORTED.match(line))


def this_process() -> Message:
    """Return host name and process id, as they appear in every report."""
    return {"host": socket.gethostname(), "pid": os.getpid()}


def earliest(known: Message | None, process: Message, report: Message) -> Message:
    """Return the earlier failure: the one that is known, or the one that a task reports now."""
    moment = time.time() - min(max(0.0, float(report["age"])), 3600.0)
    if known is not None and moment >= known["time"]:
        return known
    return {
        "type": "failure",
        **process,
        "kind": bounded_text(report["kind"], 40),
        "message": str(report["message"])[:4000],
        "traceback": str(report.get("traceback") or "")[-16_000:],
        "time": moment,
    }


class Silence:
    """The time since another process has sent a message, in seconds of the monotonic clock.

    A process that runs R code may send none: older versions of reticulate let no thread of Python run
    meanwhile. On this machine, its processor time shows that it is busy.
    """

    def __init__(self, host: str, pid: int, now: float) -> None:
        """Begin with a message at the time `now`."""
        self._pid = pid if host == socket.gethostname() else None
        self.heard(now)

    def heard(self, now: float) -> None:
        """Note a message."""
        self._since = now
        self._used: float | None = None

    def seconds(self, now: float) -> float:
        """Return for how long the process has neither sent a message nor, on this machine, worked."""
        used = self._processor_time()
        if self._used is None:
            self._used = used
        elif used - self._used > _BUSY_SHARE * max(1.0, now - self._since):
            self.heard(now)
        return now - self._since

    def as_stall(self, task: str, process: Message, now: float) -> Message | None:
        """Return the failure of a silent process, for which `task` waits, if the limit for stalls is over."""
        seconds = self.seconds(now)
        if seconds < stall_timeout():
            return None
        message = f"stalled: {task} waits, and {process['task']} has not responded for {seconds:.0f} s."
        return {**process, "kind": STALLED, "message": message, "traceback": "", "time": time.time()}

    def _processor_time(self) -> float:
        if self._pid is not None:
            # File descriptors may have run out here.
            with contextlib.suppress(psutil.Error, OSError):
                return float(sum(psutil.Process(self._pid).cpu_times()[:2]))
        return 0.0

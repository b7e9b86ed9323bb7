"""Tell a process that does not respond from one that is busy, as far as this machine can know."""

from __future__ import annotations

import contextlib
import socket
import time
from typing import Final

import psutil

from ..environment import stall_timeout
from ..net.channel import Message
from .failures import STALLED

#: A process is busy if it uses this share of a core.
_BUSY_SHARE: Final = 0.03


class Silence:
    """The time since another process has sent a message.

    A process that runs R code can be busy without sending any: older versions of reticulate let no thread of
    Python run meanwhile. On this machine, its processor time shows that it is.

    Parameters
    ----------
    host : str
        The host name of the process.
    pid : int
        Its process id there.
    now : float
        Time of its latest message (monotonic clock, seconds).
    """

    def __init__(self, host: str, pid: int, now: float) -> None:
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

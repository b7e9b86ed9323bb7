"""Limits of time that hold on a busy machine, too: they grow with the number who want its processors.

Several processes of pytest share a small machine, and what they start competes. A limit of ten seconds is
one of ten seconds where nobody else runs; where six processes want two processors, it is one of thirty.
"""

from __future__ import annotations

import math
import os
import subprocess
import threading
import time
from bisect import bisect_left
from pathlib import Path
from typing import Any

#: How many times longer than on an idle machine something may take before it counts as what hangs.
PATIENCE = 4
_EVERY_SECONDS = 0.1
_LOAD = Path("/proc/loadavg")


class _Crowd(threading.Thread):
    """Notes how many threads of this machine run or wait for a processor."""

    def __init__(self) -> None:
        super().__init__(name="crowd", daemon=True)
        self.times: list[float] = []
        self.running: list[int] = []
        self.start()

    def run(self) -> None:
        while _LOAD.exists():
            # This thread is one of them.
            self.running.append(int(_LOAD.read_text().split()[3].partition("/")[0]) - 1)
            self.times.append(time.monotonic())
            time.sleep(_EVERY_SECONDS)

    def factor(self, begun: float) -> float:
        """How many wanted a processor since then, on average, for each that there is; at least 1."""
        running = self.running[bisect_left(self.times, begun) :] or [0]
        return max(1.0, sum(running) / len(running) / (os.cpu_count() or 1))


_crowd = _Crowd()


def in_time(begun: float, seconds: float) -> bool:
    """Whether fewer than `seconds` have passed since ``time.monotonic()`` was `begun`, but for the load.

    A test asserts this right after what it measures.
    """
    took = time.monotonic() - begun
    allowed = seconds * _crowd.factor(begun)
    if took >= allowed:
        print(f"took {took:.2f} s, of {allowed:.2f} s allowed ({seconds} s on an idle machine)")
    return took < allowed


def stretched(seconds: int) -> int:
    """Return a limit for what a test starts now: so many seconds, but for the load of the last two."""
    return math.ceil(seconds * _crowd.factor(time.monotonic() - 2))


def took_at_most(took: float, seconds: float) -> bool:
    """Do the same for what ended a moment ago and took so long, as it has measured itself."""
    return took < seconds * _crowd.factor(time.monotonic() - took)


class PatientPopen(subprocess.Popen):  # type: ignore[type-arg]
    """A program that is waited for as long as it takes on a busy machine. Short limits stay as they are."""

    def communicate(self, input: Any = None, timeout: float | None = None) -> Any:
        return super().communicate(input, _patient(timeout))

    def wait(self, timeout: float | None = None) -> int:
        return super().wait(_patient(timeout))


def _patient(timeout: float | None) -> float | None:
    return timeout if timeout is None or timeout < 5 else PATIENCE * timeout

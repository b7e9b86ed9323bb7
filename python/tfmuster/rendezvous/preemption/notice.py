"""Ask a command whether this machine is about to be reclaimed, as spot instances announce it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from typing import Final

from ...system.say import say

#: Time between two questions, and the most that an answer may take, in seconds.
ASK_SECONDS: Final = 5.0


class Notice:
    """The command's answers. It exits with 0 once the machine is about to be reclaimed.

    Parameters
    ----------
    command : str
        A shell command; "" for none.
    """

    def __init__(self, command: str) -> None:
        self._command = command
        self._asked: subprocess.Popen[bytes] | None = None
        self._begun = float("-inf")
        self._complained = False

    def look(self) -> bool:
        """Ask, if it is time, and return whether the machine is about to be reclaimed by the last answer.

        Nothing here waits. Call it about twice a second.
        """
        now = time.monotonic()
        if self._asked is not None:
            code = self._asked.poll()
            if code is None and now < self._begun + ASK_SECONDS:
                return False
            if code is None:
                self._end("no answer within 5 s")
            self._asked = None
            if code == 0:
                return True
            if code in (126, 127):
                self._complain("the shell can't run it")
        if self._command and now >= self._begun + ASK_SECONDS:
            self._begun = now
            with contextlib.suppress(OSError):
                self._asked = subprocess.Popen(
                    ["/bin/sh", "-c", self._command],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
        return False

    def _end(self, why: str) -> None:
        assert self._asked is not None
        with contextlib.suppress(OSError):
            os.killpg(self._asked.pid, signal.SIGKILL)
        self._asked.wait()
        self._complain(why)

    def _complain(self, why: str) -> None:
        if not self._complained:
            self._complained = True
            say(f"tfmuster: the notice command says nothing: {why} ({self._command})")

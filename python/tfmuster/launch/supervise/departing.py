"""Ask the workers of a job to save and leave, when its launcher is told to go."""

from __future__ import annotations

import signal
import time

from ...environment import grace
from ...runs.leaving import order_to_leave
from ...runs.run import Run
from ...runs.stopping import asked_to_save
from ...system.say import say
from ...system.told_to_go import TOLD

#: How long the launcher waits longer than the workers, which say themselves what they could not save.
_MORE_SECONDS = 2.0


class Departing:
    """What the launcher does about signals, and about requests of other sessions to end its run.

    Parameters
    ----------
    run : Run
        The run.
    seconds : float or None
        How long the workers may take to save; see :func:`tfmuster.environment.grace`.
    """

    def __init__(self, run: Run, seconds: float | None) -> None:
        self._run = run
        self._seconds = grace(seconds)
        self._until = float("inf")

    def look(self) -> None:
        """Pass on that this process was told to go. Proxies tell the workers of other machines.

        Raises
        ------
        KeyboardInterrupt
            The workers were not saved in time.
        TfmusterError
            Another session has asked to end the run at once.
        """
        asked = asked_to_save(self._run)
        if asked and not TOLD.signal:
            TOLD.signal = signal.SIGTERM
        if not TOLD.signal:
            return
        if self._until == float("inf"):
            self._until = time.monotonic() + self._seconds + _MORE_SECONDS
            why = "asked to end" if asked else f"told to go by {signal.Signals(TOLD.signal).name}"
            say(f"tfmuster: {why}; saving, for at most {self._seconds:g} s")
            order_to_leave(self._run.path, TOLD.signal)
        elif time.monotonic() > self._until:
            raise KeyboardInterrupt

"""Ask the workers of a job to write a checkpoint and exit: at a shutdown signal, or to continue with more."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

from ...environment import grace
from ...system.say import say
from ...system.shutdown_signal import SHUTDOWN
from ...tracking.lifecycle.preemption import can_save, order_to_leave
from ...tracking.lifecycle.stopping import asked_to_save
from ...tracking.run import Run

#: How much longer the launcher waits than the workers, which report a missing checkpoint themselves.
_MORE_SECONDS = 2.0


class PreemptionOrders:
    """What the launcher does about signals, and about requests of other sessions to end its run.

    `new_hosts` returns the names of hosts with which the job could have more workers, or nothing.
    """

    def __init__(self, run: Run, new_hosts: Callable[[], str]) -> None:
        self._run, self._new_hosts = run, new_hosts
        self._until = float("inf")
        self._growing = False

    @property
    def growing(self) -> bool:
        """Whether the workers were asked to exit so that the job continues with more of them."""
        return self._growing and not SHUTDOWN.signal

    def look(self) -> None:
        """Pass a shutdown signal on to the workers. Proxies pass it on to those of other machines.

        Raises KeyboardInterrupt if the workers were not saved in time, and TfmusterError if another session
        has asked to end the run at once.
        """
        asked = asked_to_save(self._run.path)
        if asked and not SHUTDOWN.signal:
            SHUTDOWN.signal = signal.SIGTERM
        if not SHUTDOWN.signal:
            if not self._growing and (names := self._new_hosts()) and can_save(self._run.path):
                self._growing = True
                say(f"tfmuster: {names} can take part; the workers write a checkpoint and start again")
                order_to_leave(self._run.path, signal.SIGTERM)
            return
        if self._until == float("inf"):
            seconds = grace(self._run.info().get("grace"))
            self._until = time.monotonic() + seconds + _MORE_SECONDS
            why = "another session asked" if asked else f"received {signal.Signals(SHUTDOWN.signal).name}"
            say(f"tfmuster: {why}; the workers write a checkpoint and exit within {seconds:g} s")
            order_to_leave(self._run.path, SHUTDOWN.signal)
        elif time.monotonic() > self._until:
            raise KeyboardInterrupt

"""Restart all tasks of a job after a failure, from the last checkpoint, or let them save and exit.

One worker can't rejoin a multi-worker job, so every attempt has new processes, ports, name and token. The run
directory and its checkpoints stay. Logs of later attempts are appended to those of earlier ones.
"""

from __future__ import annotations

import secrets
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from ...environment import MAX_RESTARTS_VARIABLE, RESTART_VARIABLE, TOKEN_VARIABLE, grace
from ...errors import LaunchError
from ...system.process_end import SHUTDOWN
from ...system.say import say
from ...tracking.failure.failure import Failure
from ...tracking.lifecycle.preemption import can_save, order_to_leave
from ...tracking.lifecycle.stopping import asked_to_save
from ...tracking.record.layout import RESTARTING, utc_now
from ...tracking.record.log_text import separate
from ...tracking.record.recording import record_end, record_status
from ...tracking.run import Run


@dataclass(frozen=True)
class Attempt:
    """One attempt to run a job, after `number` others, with at most `most` restarts."""

    number: int
    most: int
    #: The run that the first attempt made.
    run: Run | None = None
    #: The name by which the attempt's processes are found, and its secret.
    name: str = field(default_factory=lambda: secrets.token_hex(16))
    token: str = field(default_factory=lambda: secrets.token_hex(32), repr=False)

    def variables(self) -> dict[str, str]:
        """Return the attempt's environment variables for the workers."""
        return {
            TOKEN_VARIABLE: self.token,
            MAX_RESTARTS_VARIABLE: str(self.most),
            RESTART_VARIABLE: str(self.number),
        }

    def another_after(self, failure: Failure) -> bool:
        """Return whether another attempt follows this failure."""
        return self.number < self.most and not failure.is_permanent


def with_restarts(
    attempt: Callable[[Attempt], tuple[Run, Failure | None]], most: int, *, tell: bool
) -> tuple[Run, Failure | None]:
    """Make attempts until one succeeds or the last one fails. Return the run and the last attempt's failure.

    The supervisor of an attempt leaves the run in the state `RESTARTING` if another attempt follows: after a
    failure, or because the job can have more workers.
    """
    run, failure = attempt(Attempt(0, most))
    number = 0
    while run.status()["state"] == RESTARTING:
        number += 1
        survived = failure
        if failure is None:
            # The workers have saved to continue with more of them, which is no failure.
            most += 1
            about = f"restart with more workers, {utc_now()}"
        else:
            about = f"restart {number} of {most}"
            if tell:
                say(f"tfmuster: {failure.headline().rstrip('.')}; {about}")
            about += f", {utc_now()}, after: {failure.headline()}"
        try:
            for path in run.log_paths().values():
                separate(path, about)
            # The records of the attempt's processes and exceptions.
            for path in (run.path / "logs").glob("*.json"):
                path.unlink(missing_ok=True)
            record_status(run.path, restarts=number)
            run, failure = attempt(Attempt(number, most, run))
        except BaseException as error:
            if run.status()["state"] == RESTARTING:
                # The next attempt did not start, so this one was the last.
                state = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
                record_end(run.path, state, survived.to_dict() if survived else None)
            if survived is None or not isinstance(error, LaunchError):
                raise
            # The call was right, as its first attempt shows. What has ended the job is that failure.
            say(f"tfmuster: no restart: {error}")
            return run, survived
    return run, failure


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

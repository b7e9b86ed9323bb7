"""Restart all tasks of a job after a failure, from the last checkpoint.

One worker can't rejoin a multi-worker job, so every attempt has new processes, ports, name and token. The run
directory and its checkpoints stay. Logs of later attempts are appended to those of earlier ones.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

from ...environment import MAX_RESTARTS_VARIABLE, RESTART_VARIABLE, TOKEN_VARIABLE
from ...system.say import say
from ...tracking.failure.failure import Failure
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
            raise
    return run, failure

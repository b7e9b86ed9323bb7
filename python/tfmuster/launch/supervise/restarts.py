"""Start a job again after a failure: all of its tasks together, from the last checkpoint.

A multi-worker job can't take one worker back, so every attempt has new processes, ports, name and token. The
run directory is the same, and with it the checkpoints; logs of later attempts follow those of earlier ones.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...environment import MAX_RESTARTS_VARIABLE, RESTART_VARIABLE, TOKEN_VARIABLE
from ...runs.failure import Failure
from ...runs.layout import RESTARTING, utc_now, write_json
from ...runs.lifecycle import new_run
from ...runs.run import Run


@dataclass(frozen=True)
class Attempt:
    """One of the at most ``most + 1`` starts of a job.

    Attributes
    ----------
    number : int
        How many there were before.
    most : int
        How many restarts there may be.
    run : Run or None
        The run directory that the first attempt has made.
    name : str
        By which its processes are found again.
    token : str
        Its secret.
    """

    number: int
    most: int
    run: Run | None = None
    name: str = field(default_factory=lambda: secrets.token_hex(16))
    token: str = field(default_factory=lambda: secrets.token_hex(32), repr=False)

    def begin(self, name: str, *, run_dir: Any, command: Sequence[str], cluster: Mapping[str, Any]) -> Run:
        """The run directory, made by the first attempt."""
        if self.run is None:
            return new_run(name, run_dir=run_dir, command=command, cluster=cluster)
        write_json(self.run.path / "run.json", {**self.run.info(), "cluster": dict(cluster)})
        return self.run

    def variables(self) -> dict[str, str]:
        """What the workers find in their environment about it."""
        return {
            TOKEN_VARIABLE: self.token,
            MAX_RESTARTS_VARIABLE: str(self.most),
            RESTART_VARIABLE: str(self.number),
        }

    def another_after(self, failure: Failure) -> bool:
        """Whether there is to be another attempt."""
        return self.number < self.most and not failure.is_permanent


def with_restarts(
    attempt: Callable[[Attempt], tuple[Run, Failure | None]], most: int, *, tell: bool
) -> tuple[Run, Failure | None]:
    """Make attempts until one succeeds or no other is to follow; the run directory, and the last's failure.

    The supervisor of an attempt leaves the run in the state `RESTARTING` if another is to follow.
    """
    run, failure = attempt(Attempt(0, most))
    number = 0
    while failure is not None and run.status()["state"] == RESTARTING:
        number += 1
        survived = failure
        about = f"restart {number} of {most}"
        if tell:
            print(f"tfmuster: {failure.headline().rstrip('.')}; {about}", file=sys.stderr, flush=True)
        try:
            _prepare(run, f"{about}, {utc_now()}, after: {failure.headline()}")
            run.set_status(restarts=number)
            run, failure = attempt(Attempt(number, most, run))
        except BaseException as error:
            if run.status()["state"] == RESTARTING:
                # It did not come to the next attempt, so this one was the last.
                state = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
                run.end(state, survived.to_dict())
            raise
    return run, failure


def _prepare(run: Run, line: str) -> None:
    """Part the logs, and remove what was noted of processes and exceptions: the next attempt has others."""
    for path in run.log_paths().values():
        _append_line(path, f"---- {line} ----")
    for path in (run.path / "logs").glob("*.json"):
        path.unlink(missing_ok=True)


def _append_line(path: Path, line: str) -> None:
    with path.open("ab+") as log:
        cut = ""
        if log.tell():
            log.seek(-1, 2)
            # A worker that is killed stops in the middle of a line.
            cut = "" if log.read() == b"\n" else "\n"
        log.write(f"{cut}{line}\n".encode())

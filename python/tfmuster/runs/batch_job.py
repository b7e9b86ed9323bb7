"""End the batch job of a run from another machine."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import LaunchError
from ..system.ask import NoAnswerError, ask
from .layout import UNFINISHED

if TYPE_CHECKING:
    from .run import Run

#: How long a batch system may take to accept the request to end a job, in seconds.
_ANSWER_SECONDS = 30.0
#: How long it may take to end the job's processes, and how long a shared file system may take to show what
#: another node has written, in seconds.
_BATCH_SECONDS, _SHARED_SECONDS = 60.0, 5.0


def end_batch_job(run: Run, command: Sequence[str]) -> None:
    """Ask the batch system to end a run's job, and wait for its end.

    Raises
    ------
    LaunchError
        The batch system does not answer here, or refuses.
    """
    has_begun = (run.path / "logs").is_dir()
    try:
        answer = ask(*command, seconds=_ANSWER_SECONDS)
    except NoAnswerError as error:
        found: str | None = str(error)
    else:
        found = None if answer.code == 0 else answer.first_line
    # A job that has not started has no launcher that could record its end.
    state = run.wait(_BATCH_SECONDS if has_begun and not found else _SHARED_SECONDS)["state"]
    if state not in UNFINISHED:
        return
    if found:
        raise LaunchError(
            f"The batch job of the run {run.name} must be ended by its batch system.",
            found=found,
            fix=f"Run this on a machine of the cluster: {shlex.join(command)}",
            run=run.name,
        )
    run.end("interrupted")

"""The environment variables that tfmuster reads and writes; no other module spells their names."""

from __future__ import annotations

import os
from typing import Any, Final

from .errors import TfmusterError

#: The environment variable that carries the job's name.
JOB_VARIABLE = "TFMUSTER_JOB"

#: Time for everyone to arrive, unless told otherwise, seconds.
DEFAULT_SECONDS: Final = 60.0


def start_timeout(timeout: float | None = None) -> float:
    """The time for everyone to arrive, in seconds: the argument, else ``TFMUSTER_START_TIMEOUT``, else 60.

    Raises
    ------
    TfmusterError
        It is not a positive number.
    """
    given: Any = os.environ.get("TFMUSTER_START_TIMEOUT", DEFAULT_SECONDS) if timeout is None else timeout
    try:
        seconds = float(given)
    except (TypeError, ValueError):
        seconds = 0.0
    if not 0 < seconds < 1e9:
        where = "TFMUSTER_START_TIMEOUT" if timeout is None else "timeout"
        raise TfmusterError(
            f"{where} must be a positive number of seconds.",
            found=repr(given),
            fix="give a number such as 60",
        )
    return seconds


#: Under ``tfmuster launch``, where every worker finds its run directory.
RUN_DIR_VARIABLE = "TFMUSTER_RUN_DIR"

#: Set in a batch job that tfmuster has submitted, to the name of the backend.
SUBMITTED_VARIABLE = "TFMUSTER_SUBMITTED"

STEPS_VARIABLE = "TFMUSTER_TRIAL_STEPS"

"""Write the exception that ends this worker to a file that its launcher reads."""

from __future__ import annotations

import contextlib
import json
import os
import time
import traceback
from pathlib import Path

from ..environment import ERROR_FILE_VARIABLE
from ..system.replace import replacing_file
from .failure import _last_r_error


def leave_note(error: BaseException, *, age: float = 0.0) -> None:
    """Write an error that is printed without a traceback; `sitecustomize` writes uncaught exceptions.

    ``age`` says how long ago it happened, in seconds: the earliest error of a job is its cause.
    """
    _leave(
        "".join(traceback.format_exception_only(error)).strip(),
        "".join(traceback.format_exception(error)) if error.__traceback__ else "",
        age,
    )


def leave_r_note(message: str) -> None:
    """Write the error that ends a worker's R program, from the text of R's ``geterrmessage()``."""
    _leave(_last_r_error(message.splitlines()), "")


def _leave(error: str, trace: str, age: float = 0.0) -> None:
    path = os.environ.get(ERROR_FILE_VARIABLE)
    if path is None:
        return
    note = {"time": time.time() - age, "pid": os.getpid(), "error": error, "traceback": trace}
    # A failure to write must not hide the error itself.
    with contextlib.suppress(OSError), replacing_file(Path(path)) as file:
        file.write(json.dumps(note).encode())

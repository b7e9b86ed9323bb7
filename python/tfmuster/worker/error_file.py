"""Write the exception that ends this worker to a file that its launcher reads."""

from __future__ import annotations

import contextlib
import json
import os
import time
import traceback
from pathlib import Path

from ..environment import ERROR_FILE_VARIABLE
from ..runs.failure import _last_r_error
from ..system.replace import replacing_file


def leave_note(error: BaseException) -> None:
    """Write an error that is printed without a traceback; `sitecustomize` writes uncaught exceptions."""
    _leave(
        "".join(traceback.format_exception_only(error)).strip(), "".join(traceback.format_exception(error))
    )


def leave_r_note(message: str) -> None:
    """Write the error that ends a worker's R program, from the text of R's ``geterrmessage()``."""
    _leave(_last_r_error(message.splitlines()), "")


def _leave(error: str, trace: str) -> None:
    path = os.environ.get(ERROR_FILE_VARIABLE)
    if path is None:
        return
    note = {"time": time.time(), "pid": os.getpid(), "error": error, "traceback": trace}
    # A failure to write must not hide the error itself.
    with contextlib.suppress(OSError), replacing_file(Path(path)) as file:
        file.write(json.dumps(note).encode())

"""Write the exception that ends this worker to the file that its launcher reads."""

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
    """Note a worker's error that is shown without a traceback, as `sitecustomize` notes those with one."""
    _leave(
        "".join(traceback.format_exception_only(error)).strip(), "".join(traceback.format_exception(error))
    )


def leave_r_note(message: str) -> None:
    """Note the error that ends a worker's R program, as R's ``geterrmessage()`` has it."""
    _leave(_last_r_error(message.splitlines()), "")


def _leave(error: str, trace: str) -> None:
    path = os.environ.get(ERROR_FILE_VARIABLE)
    if path is None:
        return
    note = {"time": time.time(), "pid": os.getpid(), "error": error, "traceback": trace}
    # The error itself has to be shown, whatever goes wrong here.
    with contextlib.suppress(OSError), replacing_file(Path(path)) as file:
        file.write(json.dumps(note).encode())

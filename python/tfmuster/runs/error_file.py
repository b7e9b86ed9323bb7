"""Write the exception that ends this worker to a file that its launcher reads."""

from __future__ import annotations

import contextlib
import json
import os
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..environment import ERROR_FILE_VARIABLE
from ..errors import TfmusterError
from ..system.replace import replacing_file
from .failure import UNPRINTED, _last_r_error


def leave_note(error: BaseException, *, age: float = 0.0) -> None:
    """Write an error that is printed without a traceback; `sitecustomize` writes uncaught exceptions.

    ``age`` says how long ago it happened, in seconds: the earliest error of a job is its cause.
    """
    _leave(
        "".join(traceback.format_exception_only(error)).strip(),
        "".join(traceback.format_exception(error)) if error.__traceback__ else "",
        age,
        **advice_of(error),
    )


def advice_of(error: BaseException) -> dict[str, Any]:
    """Return what an error of tfmuster tells its user to do, and the settings that it names."""
    if not isinstance(error, TfmusterError):
        return {}
    return {"fix": error.fix and str(error.fix), "hints": error.fields.get("hints")}


def leave_r_note(
    message: str,
    trace: str = "",
    *,
    fix: str | None = None,
    hints: Sequence[Mapping[str, Any]] | None = None,
    classes: Sequence[str] = (),
    condition: str | None = None,
) -> None:
    """Write the error that ends a worker's R program.

    Parameters
    ----------
    message : str
        The text of R's ``geterrmessage()``.
    trace : str
        R's backtrace and Python's traceback, which R has not printed: the launcher adds them to the log.
    fix, hints
        What an error of tfmuster tells its user to do, and the settings that it names.
    classes, condition
        The classes of R's condition, and the condition itself, see :class:`~tfmuster.runs.failure.Failure`.
    """
    more: dict[str, Any] = {UNPRINTED: trace, "fix": fix, "hints": hints}
    more |= {"classes": classes, "condition": condition}
    _leave(_last_r_error(message.splitlines()), trace, **more)


def _leave(error: str, trace: str, age: float = 0.0, **more: Any) -> None:
    path = os.environ.get(ERROR_FILE_VARIABLE)
    if path is None:
        return
    note = {"time": time.time() - age, "pid": os.getpid(), "error": error, "traceback": trace}
    note |= {name: value for name, value in more.items() if value}
    # A failure to write must not hide the error itself.
    with contextlib.suppress(OSError), replacing_file(Path(path)) as file:
        file.write(json.dumps(note, default=str).encode())

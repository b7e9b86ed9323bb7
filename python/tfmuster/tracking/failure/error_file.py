"""Write the note of a worker's failure, which its launcher reads. For R, worker/site/failure_note.R does so.

A worker whose Python has only the standard library imports this module, too.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...environment import ERROR_FILE_VARIABLE, JOB_VARIABLE
from ...errors import TfmusterError
from ...system.replace import replacing_file

_AS_ONE = (
    "another worker may have made or removed it a moment before: let one worker of each machine do so before "
    "the others, in a block `with tfmuster.chief_first():`"
)
#: How long ago that was at most, in seconds.
_MOMENT = 10.0

#: In a worker's note: what it has not printed of its error, for its log.
UNPRINTED = "unprinted"


def leave_note(error: BaseException, *, age: float = 0.0) -> None:
    """Write the error that ends this worker, unless it has noted a cause before, such as a stall."""
    path = os.environ.get(ERROR_FILE_VARIABLE)
    if path is not None and not _has_noted(path):
        fix = {"fix": _AS_ONE} if _may_have_raced(error) else {}
        write_note(Path(path), note_of(error, age=age) | fix)


def note_of(error: BaseException, *, age: float = 0.0) -> dict[str, Any]:
    """Return the fields of an error's note, as :class:`.failure.Failure` describes them.

    `age` is how long ago it happened, in seconds.
    """
    text = "".join(traceback.format_exception_only(error)).strip()
    if isinstance(error, SyntaxError):
        # Python's text starts with the location, but a headline has one line.
        text = f"{type(error).__name__}: {error}"
    note: dict[str, Any] = {"time": time.time() - age, "error": text}
    # That of a mistake in a script has no frames.
    if error.__traceback__ or isinstance(error, SyntaxError):
        note["traceback"] = "".join(traceback.format_exception(error))
    if isinstance(error, ImportError):
        note["python"] = sys.executable
    if isinstance(error, TfmusterError):
        note |= {"fix": error.fix and str(error.fix), "hints": error.fields.get("hints")}
    return note


def write_note(path: Path, note: Mapping[str, Any]) -> None:
    """Write a note as one of this process, which may represent a remote worker. Ignore write errors."""
    text = json.dumps({"traceback": "", **note, "pid": os.getpid()}, default=str, ensure_ascii=False)
    with contextlib.suppress(OSError), replacing_file(path) as file:
        file.write(text.encode(errors="replace"))


def _may_have_raced(error: BaseException) -> bool:
    """Return whether one of several workers misses or finds a file that was made or removed just now."""
    if not isinstance(error, (FileExistsError, FileNotFoundError)) or not isinstance(error.filename, str):
        return False
    path = Path(error.filename)
    try:
        jobs = json.loads(os.environ["TF_CONFIG"])["cluster"]
        changed = (path if isinstance(error, FileExistsError) else path.absolute().parent).stat().st_ctime
        # What has changed before, such as the folder of runs, is not the program's.
        recently = changed > max(_began(), time.time() - _MOMENT)
    except (OSError, KeyError, TypeError, ValueError, AttributeError):  # the last two: not Linux
        return False
    return recently and sum(len(jobs.get(job, ())) for job in ("chief", "worker")) > 1


def _began() -> float:
    """Return when the first process of this attempt on this machine was started, which may be another worker.

    In seconds since the epoch.
    """
    own = f"{JOB_VARIABLE}={os.environ.get(JOB_VARIABLE)}".encode()
    ticks = []
    for process in Path("/proc").glob("[0-9]*"):
        # Most belong to others, and some end meanwhile.
        with contextlib.suppress(OSError):
            if process.name == str(os.getpid()) or own in (process / "environ").read_bytes().split(b"\0"):
                fields = (process / "stat").read_text(errors="replace").rpartition(")")[2].split()
                ticks.append(int(fields[19]))
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - min(ticks) / os.sysconf("SC_CLK_TCK")
    return time.time() - age


def _has_noted(path: str) -> bool:
    """Return whether this process has left a note of an error before."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError), open(path, encoding="utf-8") as file:
        return bool(json.load(file)["pid"] == os.getpid())
    return False

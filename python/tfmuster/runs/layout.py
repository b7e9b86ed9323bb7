"""The names of files and states in a run directory, and how its JSON is read and written."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import orjson

from ..system.replace import replacing_file

#: Where runs are kept, relative to the working directory.
RUNS = "runs"

#: Of a function on workers, what is called and what each has returned, in the run directory.
CALL = "call"

#: Where each task notes what it is doing, in the run directory.
STATES = "states"

#: The command that ends the batch job of a run, from any machine, in the run directory.
STOP_COMMAND = "stop.json"

#: Between a failure and the next start of all tasks.
RESTARTING = "restarting"

#: States in which a run may still change.
UNFINISHED = ("starting", "running", RESTARTING)


def file_stem(task: str) -> str:
    """How files of a task are called: ``worker-0`` for ``worker 0``."""
    return task.replace(" ", "-")


def task_of(stem: str) -> str:
    """The task that a file is of, by its name without suffix."""
    return stem.replace("-", " ")


def sha256_of(path: Path | str) -> str:
    """The SHA-256 of a file's content, in hexadecimal digits."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def utc_now() -> str:
    """The time now, UTC, ISO 8601, in milliseconds."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Replace a JSON file atomically: whoever reads it meets the old or the new one, never half of one."""
    data = orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    with replacing_file(path) as file:
        file.write(data)


def append_json(path: Path, line: Mapping[str, Any]) -> None:
    """Append one line of JSON to a file. NaN and infinity become ``null``.

    The line is written in one go, so that lines of several processes do not mix.

    Raises
    ------
    OSError
        It can't be written.
    """
    with path.open("ab") as file:
        file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))


def read_json(path: Path) -> dict[str, Any]:
    """The object of a JSON file; empty if there is none, or none that can be read."""
    try:
        value = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return {}
    return value if isinstance(value, dict) else {}

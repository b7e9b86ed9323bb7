"""Name the files and states of a run directory, and read and write its JSON."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import orjson

from ...environment import RUN_DIR_VARIABLE
from ...system.regular_files import each_block, read_regular
from ...system.replace import replacing_file

#: Folder of all runs, relative to the working directory.
RUNS = "runs"

# Files and folders of a run directory; tracking/run.py says what each is.
CALL = "call"
STATES = "states"
STACKS = "stacks"
STOP_COMMAND = "stop.json"
RESUME = "resume.json"
ARRIVED = "arrived.jsonl"
MODEL = "model.keras"
TENSORBOARD = "tensorboard"
#: Folder with what the chief's program has written into its working folder on another host, if tfmuster made
#: that folder.
FILES = "files"
#: Empty file in a run directory whose name tfmuster has chosen, so that it was new.
NAMED = ".tfmuster"

#: File in `CALL` that says that values may be objects of any kind, whose reading runs code: the workers run
#: on this machine, or the user trusts their hosts.
ANY_VALUES = "any-values"
#: File in `CALL` while it belongs to a function whose run has not begun.
CLAIMED = "claimed"

#: Suffix of a checkpoint's file, whose stem is its number of steps.
CHECKPOINT = ".checkpoint"
_CHECKPOINT_NAME = re.compile(rf"([0-9]+){re.escape(CHECKPOINT)}")
#: File of a checkpoints folder with the process that writes there.
CHECKPOINT_OWNER = ".owner.json"

#: Bytes of the largest file of JSON that is read, and of lines of JSON: those of a million epochs and more.
_MOST_JSON = 64 << 20
MOST_LINES = 1 << 30

#: State between a failure and the restart of all tasks.
RESTARTING = "restarting"
#: State of a run that has written a checkpoint because of a shutdown signal, and ended.
PREEMPTED = "preempted"
#: States of a run that has not ended.
UNFINISHED = ("starting", "running", RESTARTING)

#: What only the launcher and the sessions of its machine write in the run directory.
RESERVED = (
    "run.json",
    "status.json",
    "error.json",
    RESUME,
    STOP_COMMAND,
    ARRIVED,
    "stop",
    "logs",
    "tfruns.d",
    "report.html",
)

#: Files to which the chief adds lines, also when a run continues.
CONTINUED = ("metrics.jsonl", "notes.jsonl", "evaluations.jsonl")

#: All that tfmuster itself writes in a run directory. A new run finds none of these names there, so whatever
#: has one later is the run's own, and is removed with it. Checkpoints, models and TensorBoard's files are not
#: listed: in a directory that a user has chosen, they may be older than the run, which continues with them.
#: They are removed from a directory that has `NAMED`.
NAMES = (*RESERVED, *CONTINUED, CALL, STATES, STACKS)


def own_run_dir() -> Path | None:
    """Return the run directory of the job that this process belongs to; None outside of a job."""
    folder = os.environ.get(RUN_DIR_VARIABLE)
    return Path(folder) if folder else None


def holds_run(path: Path) -> bool:
    """Return whether a directory has the record of a run, and not a ``run.json`` of its user's own."""
    return {"command", "started"} <= read_json(path / "run.json").keys()


def may_arrive(task: str, parts: Sequence[str]) -> bool:
    """Return whether a task on another machine may send a file, given the parts of its path.

    Each task has its own files in ``call``, ``states`` and ``stacks``. Hidden files are not sent. A folder
    that looks like another run is not made, because what ends a run and what reads its values trust it.
    """
    first, last = parts[0].casefold(), parts[-1]
    if first in RESERVED or any(part.startswith(".") for part in parts):
        return False
    if last.casefold() in ("run.json", ANY_VALUES):
        return False
    if first == CALL:
        return parts in [(CALL, f"{file_stem(task)}.{suffix}") for suffix in ("value", "pkl", "rds")]
    if first in (STATES, STACKS):
        return len(parts) == 2 and last.partition(".")[0] == file_stem(task)
    return True


def checkpoint_step(name: str) -> int | None:
    """Return the step of the checkpoint in a file of this name; None if the file is something else."""
    match = _CHECKPOINT_NAME.fullmatch(name)
    return int(match[1]) if match else None


def file_stem(task: str) -> str:
    """Return the stem of a task's file names: ``worker-0`` for ``worker 0``."""
    return task.replace(" ", "-")


def task_of(stem: str) -> str:
    """Return the task that a file belongs to, from the stem of its name."""
    return stem.replace("-", " ")


def task_order(stem: str) -> tuple[str, int]:
    """Return what the files of tasks are sorted by, from the stem: the job, and the index as a number."""
    job, _, index = stem.rpartition("-")
    return job, int(index) if index.isdigit() else 0


def sha256_of(path: Path | str) -> str:
    """Return the SHA-256 of a file's content, in hexadecimal digits."""
    # In pieces that stay in the processor's cache: new memory for the whole file takes as long as the digest.
    digest, piece = hashlib.sha256(), memoryview(bytearray(1 << 18))
    with open(path, "rb", buffering=0) as file:
        while length := file.readinto(piece):
            digest.update(piece[:length])
    return digest.hexdigest()


def utc_now() -> str:
    """Return the current time in UTC, in ISO 8601 with milliseconds."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


def write_json(path: Path, value: Mapping[str, object], *, mode: int = 0o666) -> None:
    """Replace a JSON file atomically. `mode` are its permissions before the umask applies."""
    data = orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    with replacing_file(path, mode=mode) as file:
        file.write(data)


def append_json(path: Path, line: Mapping[str, object]) -> None:
    """Append a line of JSON with one system call, so that lines do not mix. NaN and infinity become null."""
    with path.open("ab") as file:
        file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))


def read_json(path: Path | str) -> dict[str, Any]:
    """Read the object in a JSON file. Return an empty dict if the file is missing or unreadable."""
    try:
        value = orjson.loads(read_regular(path, _MOST_JSON))
    except (OSError, orjson.JSONDecodeError):
        return {}
    return value if isinstance(value, dict) else {}


def read_json_lines(path: Path | str) -> list[dict[str, Any]]:
    """Return the objects of a file's lines. The last line may be incomplete, and a user may add others."""
    return [value for block in each_json_block(path) for value in block]


def each_json_block(path: Path | str) -> Iterator[list[dict[str, Any]]]:
    """Yield what `read_json_lines` returns, with some hundred KB of the file in memory at a time."""
    with contextlib.suppress(OSError):
        yield from map(json_objects, each_block(path, MOST_LINES))


def json_objects(lines: Sequence[bytes]) -> list[dict[str, Any]]:
    """Return the objects of lines of JSON, without those that are something else."""
    values = []
    try:
        # Nearly always; a million times `suppress` would take longer than to read the lines.
        values = list(map(orjson.loads, lines))
    except orjson.JSONDecodeError:
        for line in lines:
            with contextlib.suppress(orjson.JSONDecodeError):
                values.append(orjson.loads(line))
    return [value for value in values if isinstance(value, dict)]

"""Read and write ``run.json``, ``status.json`` and ``error.json``, what tfruns reads, and the list of runs.

A full disk, an editor, another version or another user may have left anything in these files. Each entry that
is read is of the kind that its readers expect, or is left out, and `unreadable` names it.
"""

from __future__ import annotations

import contextlib
import math
import os
import shlex
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final

import orjson

from ...system.replace import replacing_file
from ...system.terminal_text import output_encoding
from .hidden_values import settings_without_secrets, without_secrets
from .history import read_history
from .layout import CALL, MOST_LINES, RESUME, STOP_COMMAND, read_json, read_json_lines, utc_now, write_json
from .lines import METRICS, NOTES

#: Tells whether a value that was read is of the kind that its readers expect.
Check = Callable[[Any], bool]


def is_a(*types: type) -> Check:
    """Return the check of values of these types; a boolean is no number."""
    return lambda value: isinstance(value, types) and not isinstance(value, bool)


def or_none(check: Check) -> Check:
    """Return the check that also takes None."""
    return lambda value: value is None or check(value)


def list_of(check: Check) -> Check:
    """Return the check of lists whose items all suit."""
    return lambda value: isinstance(value, list) and all(map(check, value))


_is_text, _is_number, _is_object = is_a(str), is_a(int), is_a(dict)
_are_texts = list_of(_is_text)


def _is_word(value: object) -> bool:
    # No control characters, and none that change the direction of text: all faces show these entries.
    return isinstance(value, str) and value.isprintable()


def _is_process(value: Any) -> bool:
    return _is_number(value) and 0 < value < 2**31


def _is_time(value: Any) -> bool:
    try:
        return datetime.fromisoformat(value).tzinfo is not None
    except (TypeError, ValueError):
        return False


_INFO: Final[Mapping[str, Check]] = {
    **dict.fromkeys(("name", "directory"), _is_text),
    **dict.fromkeys(("host", "pid_birth", "hash_seed"), _is_word),
    **dict.fromkeys(("seed", "job"), or_none(is_a(str, int))),
    "command": _are_texts,
    "cluster": lambda value: _is_object(value) and all(map(_are_texts, value.values())),
    "started": _is_time,
    "pid": _is_process,
    **dict.fromkeys(("versions", "launch"), _is_object),
    "git": lambda value: _is_object(value) and {"commit", "changed"} <= value.keys(),
    "resumed": _is_number,
    # Not every codec makes text of bytes.
    "encoding": lambda value: _is_text(value) and bool(output_encoding({"PYTHONIOENCODING": value})),
}
_STATUS: Final[Mapping[str, Check]] = {
    "state": _is_word,
    "restarts": _is_number,
    "tasks": _is_object,
    "updated": _is_time,
}
_TASK: Final[Mapping[str, Check]] = {
    **dict.fromkeys(("state", "host", "birth"), _is_word),
    "pid": or_none(_is_process),
    "exit_code": or_none(_is_number),
}
_ERROR: Final[Mapping[str, Check]] = {
    **dict.fromkeys(("task", "host", "error", "traceback", "log"), _is_text),
    "time": _is_time,
    "exit_code": or_none(_is_number),
    **dict.fromkeys(("signal", "fix", "condition"), or_none(_is_text)),
    "hints": list_of(_is_object),
    **dict.fromkeys(("last_lines", "classes"), _are_texts),
}
_FILES: Final = {"run.json": _INFO, "status.json": _STATUS, "error.json": _ERROR}
#: A failure of which nothing is known.
_NO_ERROR: Final[Mapping[str, Any]] = {
    "task": "a task",
    "host": "an unknown host",
    **dict.fromkeys(("error", "traceback", "log"), ""),
    **dict.fromkeys(("exit_code", "signal", "fix", "condition")),
    "last_lines": [],
    "hints": [],
    "classes": [],
}

#: Size from which the list of runs is written anew, without the runs that are gone, in bytes.
_LARGE_INDEX = 256_000


class Documents:
    """The JSON files of a run, each of which is read once: for what is shown of many runs."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        self._folder = os.fspath(run_dir)
        self._contents: dict[str, tuple[dict[str, Any], list[str]]] = {}

    def path(self, name: str) -> str:
        """Return the path of a file. A Path would take longer than to read the file."""
        return f"{self._folder}/{name}"

    def content(self, name: str) -> tuple[dict[str, Any], list[str]]:
        """Return the entries of a file without those that are not of their kind, and the names of these."""
        if name not in self._contents:
            known, odd = _sorted_out(read_json(self.path(name)), _FILES[name])
            if name == "status.json" and "tasks" in known:
                known["tasks"] = dict(_each_task(known["tasks"], odd))
            self._contents[name] = known, odd
        return self._contents[name]

    def info(self) -> dict[str, Any]:
        """See :func:`read_info`."""
        return self.content("run.json")[0]

    def status(self) -> dict[str, Any]:
        """See :func:`read_status`."""
        return self.content("status.json")[0]

    def unreadable(self) -> str:
        """See :func:`unreadable`."""
        try:
            # Most runs have no error and no notes, and to look for each takes longer.
            there = os.listdir(self._folder)
        except OSError:
            there = [*_FILES, METRICS, NOTES]
        names = []
        for name in filter(there.__contains__, _FILES):
            path, (known, odd) = self.path(name), self.content(name)
            if odd:
                names.append(f"{name} ({', '.join(odd)})")
            # Only its owner may read some of them.
            elif not known and (size := _size(path)) is not None and (size < 0 or os.access(path, os.R_OK)):
                names.append(name)
        for name in filter(there.__contains__, (METRICS, NOTES)):
            # A file of lines may be empty.
            if (size := _size(self.path(name))) is not None and not 0 <= size <= MOST_LINES:
                names.append(name)
        return ", ".join(names)


def _each_task(tasks: Mapping[str, Any], odd: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the entry of each task, which has a state, and add the names of those that are odd."""
    for task, entry in tasks.items():
        is_object = isinstance(entry, dict)
        known, odd_entries = _sorted_out(entry, _TASK) if is_object else ({}, [task])
        if odd_entries:
            odd.append(task)
        if is_object:
            yield task, {"state": "unknown", **known}


def read_info(run_dir: Path) -> dict[str, Any]:
    """Read ``run.json``."""
    return Documents(run_dir).info()


def read_status(run_dir: Path) -> dict[str, Any]:
    """Read ``status.json``; each of its tasks has a state."""
    return Documents(run_dir).status()


def read_error(run_dir: Path) -> dict[str, Any]:
    """Read ``error.json``, with all its entries; empty if there is no failure."""
    path = run_dir / "error.json"
    known, odd = Documents(run_dir).content("error.json")
    if not known and not odd:
        return {}
    return {**_NO_ERROR, "time": written(path).isoformat(timespec="milliseconds"), **known}


def written(path: Path) -> datetime:
    """Return when a file was written by its file system; now if it is not there."""
    try:
        return datetime.fromtimestamp(path.stat().st_mtime, timezone.utc)
    except (OSError, ValueError, OverflowError):
        return datetime.now(timezone.utc)


def unreadable(run_dir: Path) -> str:
    """Name the files of a run, and their entries, that are not what they must be; "" if all are."""
    return Documents(run_dir).unreadable()


def _size(path: str) -> int | None:
    """Return the size of a regular file, also behind a link; -1 of anything else, None of nothing."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    if stat.S_ISLNK(status.st_mode):
        with contextlib.suppress(OSError):
            status = os.stat(path)
    return status.st_size if stat.S_ISREG(status.st_mode) else -1


def _sorted_out(entries: dict[str, Any], checks: Mapping[str, Check]) -> tuple[dict[str, Any], list[str]]:
    """Return the entries without those that are not of their kind, and the names of these."""
    odd = [name for name, value in entries.items() if name in checks and not checks[name](value)]
    return ({name: value for name, value in entries.items() if name not in odd} if odd else entries), odd


def record_info(run_dir: Path, about: Mapping[str, Any]) -> None:
    """Replace ``run.json``, which only this user can read. Secrets in the launch are not written."""
    shown = {**about, "command": without_secrets(about.get("command", ()))}
    if "launch" in about:
        shown["launch"] = settings_without_secrets(about["launch"])
    write_json(run_dir / "run.json", shown, mode=0o600)


def record_status(run_dir: Path, **changes: object) -> None:
    """Change entries of ``status.json``."""
    status = {**read_json(run_dir / "status.json"), **changes, "updated": utc_now()}
    write_json(run_dir / "status.json", status)


def record_stop_command(run_dir: Path, command: Sequence[str]) -> None:
    """Record the command that ends this run's batch job, on submission and in the job itself."""
    write_json(run_dir / STOP_COMMAND, {"command": list(command)})


def record_end(
    run_dir: Path, state: str, error: Mapping[str, object] | None = None, **changes: object
) -> None:
    """Record how a run ended: its final state, its first failure, and more entries of ``status.json``."""
    if error is not None:
        write_json(run_dir / "error.json", error)
    with contextlib.suppress(OSError):
        _write_tfruns(run_dir, state)
    if state == "done":
        # What a function was given may be large and private; its values stay.
        for path in (*(run_dir / CALL).glob("call.*"), run_dir / RESUME):
            path.unlink(missing_ok=True)
    # The state is written last, so that a session that waits for it finds everything else.
    record_status(run_dir, state=state, **changes)


def _write_tfruns(run_dir: Path, state: str) -> None:
    """Write ``tfruns.d``, so that ``tfruns::ls_runs()`` of the R package tfruns lists the run.

    The files are those of tfruns 1.5.4: one file per property, metrics by column, an error. The folder is its
    owner's alone, as ``run.json`` is: one of the properties is the command.
    """
    info, history, error = read_info(run_dir), read_history(run_dir).lists(), read_error(run_dir)
    folder = run_dir / "tfruns.d"
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / "properties").mkdir(exist_ok=True)
    started = info.get("started")
    properties: dict[str, object] = {
        "type": "training",
        "context": "local",
        "script": shlex.join(map(str, info.get("command", []))),
        "start": datetime.fromisoformat(started).timestamp() if started else 0.0,
        "end": time.time(),
        "completed": str(state == "done").upper(),
        "epochs": max(map(len, history.values()), default=0),
    }
    for name, value in properties.items():
        (folder / "properties" / name).write_text(f"{value}\n", encoding="utf-8")
    # JSON has no NaN.
    columns = {
        name: [value if math.isfinite(value) else None for value in values]
        for name, values in history.items()
    }
    write_json(folder / "metrics.json", columns)
    if error:
        message = error["error"] or f"{error['task']} failed"
        write_json(folder / "error.json", {"message": message, "traceback": error["traceback"]})


def index_path() -> Path | None:
    """Return the path of the list of this user's runs; None if this user has no state folder.

    It has a line for each run, so that runs are found from any folder. It is in ``XDG_STATE_HOME``, by
    default ``~/.local/state``. A check of an R package must not write there.
    """
    if "_R_CHECK_PACKAGE_NAME_" in os.environ:
        return None
    folder = os.environ.get("XDG_STATE_HOME", "")
    try:
        state = Path(folder) if os.path.isabs(folder) else Path.home() / ".local" / "state"
    except RuntimeError:
        return None
    return state / "tfmuster" / "runs.jsonl"


def remember_run(run_dir: Path) -> None:
    """Add a run. A full disk or a folder that can't be written must not end the job."""
    path = index_path()
    if path is None:
        return
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if path.exists() and path.stat().st_size > _LARGE_INDEX:
            runs = known_runs()
            with replacing_file(path, mode=0o600) as file:
                file.writelines(map(_index_line, runs))
        # One write, so that two jobs can add their lines at the same time.
        with open(path, "ab", buffering=0, opener=lambda name, flags: os.open(name, flags, 0o600)) as index:
            index.write(_index_line(run_dir))


def known_runs() -> list[Path]:
    """Return the run directories in the list that are still there, in the order of their jobs."""
    path = index_path()
    lines = [] if path is None else read_json_lines(path)
    paths = dict.fromkeys(Path(line["path"]) for line in lines if isinstance(line.get("path"), str))
    return [run for run in paths if os.path.exists(run / "run.json")]


def _index_line(run_dir: Path) -> bytes:
    return orjson.dumps({"path": os.fsencode(run_dir).decode("utf-8", "replace")}) + b"\n"

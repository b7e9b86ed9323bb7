"""Read ``run.json``, ``status.json`` and ``error.json``, whatever has become of them.

A full disk, an editor, another version or another user may have left anything there. Each entry is of the
kind that its readers expect, or is left out, and `unreadable` names it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final

from ...system.terminal_text import output_encoding
from .layout import read_json
from .metrics import METRICS
from .notes import NOTES

_Check = Callable[[Any], bool]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_word(value: Any) -> bool:
    # No control characters, and none that change the direction of text: all faces show these entries.
    return _is_text(value) and value.isprintable()


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_process(value: Any) -> bool:
    return _is_number(value) and 0 < value < 2**31


def _is_time(value: Any) -> bool:
    try:
        return datetime.fromisoformat(value).tzinfo is not None
    except (TypeError, ValueError):
        return False


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_cluster(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_are_texts, value.values()))


def _is_encoding(value: Any) -> bool:
    # Not every codec makes text of bytes.
    return isinstance(value, str) and output_encoding({"PYTHONIOENCODING": value}) is not None


def _is_git(value: Any) -> bool:
    return isinstance(value, dict) and {"commit", "changed"} <= value.keys()


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _are_hints(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_object, value))


def _or_none(check: _Check) -> _Check:
    return lambda value: value is None or check(value)


_INFO: Final[Mapping[str, _Check]] = {
    **dict.fromkeys(("name", "directory"), _is_text),
    **dict.fromkeys(("host", "pid_birth", "hash_seed"), _is_word),
    **dict.fromkeys(("seed", "job"), _or_none(lambda value: _is_text(value) or _is_number(value))),
    "command": _are_texts,
    "cluster": _is_cluster,
    "started": _is_time,
    "pid": _is_process,
    "versions": _is_object,
    "git": _is_git,
    "resumed": _is_number,
    "encoding": _is_encoding,
}
_STATUS: Final[Mapping[str, _Check]] = {
    "state": _is_word,
    "restarts": _is_number,
    "tasks": _is_object,
    "updated": _is_time,
}
_TASK: Final[Mapping[str, _Check]] = {
    **dict.fromkeys(("state", "host", "birth"), _is_word),
    "pid": _or_none(_is_process),
    "exit_code": _or_none(_is_number),
}
_ERROR: Final[Mapping[str, _Check]] = {
    **dict.fromkeys(("task", "host", "error", "traceback", "log"), _is_text),
    "time": _is_time,
    "exit_code": _or_none(_is_number),
    **dict.fromkeys(("signal", "fix", "condition"), _or_none(_is_text)),
    "hints": _are_hints,
    **dict.fromkeys(("last_lines", "classes"), _are_texts),
}
_FILES: Final = {"run.json": _INFO, "status.json": _STATUS, "error.json": _ERROR}
#: A failure of which nothing is known.
_NO_ERROR: Final[Mapping[str, Any]] = {
    "task": "a task",
    "host": "an unknown host",
    "exit_code": None,
    "signal": None,
    "error": "",
    "traceback": "",
    "last_lines": [],
    "log": "",
    "fix": None,
    "hints": [],
    "classes": [],
    "condition": None,
}


def read_info(run_dir: Path) -> dict[str, Any]:
    """Read ``run.json``."""
    return _known(read_json(run_dir / "run.json"), _INFO)


def read_status(run_dir: Path) -> dict[str, Any]:
    """Read ``status.json``; each of its tasks has a state."""
    status = _known(read_json(run_dir / "status.json"), _STATUS)
    if "tasks" in status:
        tasks = {name: entry for name, entry in status["tasks"].items() if isinstance(entry, dict)}
        status["tasks"] = {name: {"state": "unknown", **_known(tasks[name], _TASK)} for name in tasks}
    return status


def read_error(run_dir: Path) -> dict[str, Any]:
    """Read ``error.json``, with all its entries; empty if there is no failure."""
    path = run_dir / "error.json"
    if not (said := read_json(path)):
        return {}
    return {**_NO_ERROR, "time": written(path).isoformat(timespec="milliseconds"), **_known(said, _ERROR)}


def written(path: Path) -> datetime:
    """Return when a file was written by its file system; now if it is not there."""
    try:
        return datetime.fromtimestamp(path.stat().st_mtime, timezone.utc)
    except (OSError, ValueError, OverflowError):
        return datetime.now(timezone.utc)


def unreadable(run_dir: Path) -> str:
    """Name the files of a run, and their entries, that are not what they must be; "" if all are."""
    found = []
    for name, checks in _FILES.items():
        path = run_dir / name
        # Only its owner may read some of them.
        if os.path.lexists(path) and (not path.is_file() or os.access(path, os.R_OK)):
            said = read_json(path)
            known = _known(said, checks)
            odd = [entry for entry in said if entry not in known]
            tasks = said.get("tasks") if checks is _STATUS else None
            for task, entry in tasks.items() if isinstance(tasks, dict) else ():
                if not isinstance(entry, dict) or _known(entry, _TASK) != entry:
                    odd.append(task)
            if odd or not said:
                found.append(f"{name} ({', '.join(odd)})" if odd else name)
    found += [
        name
        for name in (METRICS, NOTES)
        if os.path.lexists(run_dir / name) and not (run_dir / name).is_file()
    ]
    return ", ".join(found)


def _known(said: Mapping[str, Any], checks: Mapping[str, _Check]) -> dict[str, Any]:
    """Return the entries that are of their kind, and those of which no kind is known."""
    return {name: value for name, value in said.items() if name not in checks or checks[name](value)}

"""Decide where a file that a host sends is kept in the run directory, so that it replaces none of its user's.

A run directory that a user has chosen may hold other files: programs, data, results of another day. A host
replaces only what hosts of this run have sent before, which ``arrived.jsonl`` lists, and what a run
continues: checkpoints and the model. Under any other name that is taken, its file is kept in a folder of the
task, ``from-worker-1``.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

import orjson

from ....tracking.record.layout import (
    ARRIVED,
    FILES,
    MODEL,
    NAMES,
    append_json,
    checkpoint_step,
    file_stem,
    may_arrive,
)

#: Files to which the chief adds lines.
_CONTINUED: Final = ("metrics.jsonl", "notes.jsonl", "evaluations.jsonl")


class Arrivals:
    """The places of the files that one task sends. `tell` gets a text about each name that is taken."""

    def __init__(self, run_dir: Path, task: str, tell: Callable[[str], None]) -> None:
        self._run_dir = run_dir
        self._aside = f"from-{file_stem(task)}"
        self._tell = tell
        self._places: dict[PurePosixPath, Path] = {}
        self._arrived: set[str] = set()

    def place(self, name: PurePosixPath) -> Path:
        """Return where to keep the file with this name; the name is within the run directory."""
        if name not in self._places:
            self._places[name] = self._new_place(name)
        return self._places[name]

    def _new_place(self, name: PurePosixPath) -> Path:
        path = self._run_dir / name
        if _may_be_older(name.parts):
            return path
        # In this order: another task's proxy notes a name before its file is there.
        if os.path.lexists(path) or self._leads_elsewhere(name):
            # Names are only added, so the file is read again for one that is not known.
            if str(name) not in self._arrived:
                self._arrived = _arrived(self._run_dir)
            if str(name) in self._arrived:
                return path
            self._tell(f"{name} is kept in {self._aside}: the run directory has another file of this name")
            return self._run_dir / self._aside / name
        append_json(self._run_dir / ARRIVED, {"file": str(name)})
        return path

    def _leads_elsewhere(self, name: PurePosixPath) -> bool:
        """Return whether a folder on the way is a link, or a file."""
        folders = [self._run_dir / folder for folder in name.parents if folder.parts]
        return any(os.path.lexists(path) and (path.is_symlink() or not path.is_dir()) for path in folders)


def files_to_continue(run_dir: Path, task: str) -> list[tuple[str, str]]:
    """Return the files from which a task on another machine continues a run: the path and name of each.

    They are what the chief adds to, the checkpoints, and what hosts of this run have sent into it.
    """
    checkpoints = [path.relative_to(run_dir) for path in run_dir.glob("checkpoints*/*")]
    names = {
        *map(PurePosixPath, _CONTINUED),
        *(PurePosixPath(path) for path in checkpoints if checkpoint_step(path.name) is not None),
        *(name for name in map(PurePosixPath, _arrived(run_dir)) if name.parts[0] not in (*NAMES, FILES)),
    }
    return [
        (str(run_dir / name), str(name))
        for name in sorted(names)
        if may_arrive(task, name.parts) and (run_dir / name).is_file()
    ]


def _arrived(run_dir: Path) -> set[str]:
    """Return the names that hosts have sent, in this start of the run or an earlier one."""
    names = set()
    with contextlib.suppress(OSError):
        for line in (run_dir / ARRIVED).read_bytes().splitlines():
            with contextlib.suppress(orjson.JSONDecodeError, TypeError, KeyError):
                names.add(str(orjson.loads(line)["file"]))
    return names


def _may_be_older(parts: Sequence[str]) -> bool:
    """Return whether a file is one that a run continues, or one of those that a new run has not found."""
    return parts[0] in (*NAMES, MODEL) or parts[0].startswith("checkpoints")

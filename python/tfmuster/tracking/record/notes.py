"""Write and read ``notes.jsonl``: what was decided for a program while it ran. The chief writes it."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Any

import orjson

from ...environment import RUN_DIR_VARIABLE
from .layout import append_json

#: File in the run directory with one note per line, from the chief.
NOTES = "notes.jsonl"


def say_note(about: str, text: str, **fields: Any) -> None:
    """Append a note to the run directory, if this process belongs to a job.

    Errors in writing are ignored: a missing note must not end a training.

    Parameters
    ----------
    about : str
        What the note is about, such as ``input``.
    text : str
        One line for people.
    **fields
        The same for programs.
    """
    if folder := os.environ.get(RUN_DIR_VARIABLE):
        with contextlib.suppress(OSError):
            append_json(Path(folder) / NOTES, {"time": time.time(), "about": about, "text": text, **fields})


def read_notes(run_dir: Path) -> list[dict[str, Any]]:
    """Read the notes of a run, in the order in which they were written."""
    notes = []
    with contextlib.suppress(OSError):
        for line in (run_dir / NOTES).read_bytes().splitlines():
            with contextlib.suppress(orjson.JSONDecodeError):
                notes.append(orjson.loads(line))
    return [
        note
        for note in notes
        if isinstance(note, dict) and all(isinstance(note.get(name), str) for name in ("about", "text"))
    ]

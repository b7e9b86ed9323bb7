"""When each task began to do what: ``states/worker-0.jsonl`` in the run directory, a line for each phase.

The launcher writes when a task was started and how it ended, the task itself what it did between. Attempts
after restarts follow each other.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any

import orjson

from .runs import STATES


def note_phase(run_dir: Path, task: str, phase: str) -> None:
    """Add a line. What can't be written is left: a picture is worth no failure."""
    path = run_dir / STATES / f"{task.replace(' ', '-')}.jsonl"
    with contextlib.suppress(OSError):
        path.parent.mkdir(exist_ok=True)
        with path.open("ab") as file:
            file.write(orjson.dumps({"time": time.time(), "phase": phase}) + b"\n")


def read_events(run_dir: Path) -> dict[str, list[dict[str, Any]]]:
    """By task, such as ``worker 0``, its ``phase`` and their ``time`` (seconds since 1970), in order."""
    events = {}
    for path in sorted(run_dir.joinpath(STATES).glob("*-*.jsonl"), key=_place):
        told: list[dict[str, Any]] = []
        for line in path.read_bytes().splitlines():
            # The last line may be half written.
            with contextlib.suppress(orjson.JSONDecodeError, LookupError, TypeError, ValueError):
                event = orjson.loads(line)
                told.append({"time": float(event["time"]), "phase": str(event["phase"])})
        events[path.stem.replace("-", " ")] = sorted(told, key=lambda event: event["time"])
    return events


def _place(path: Path) -> tuple[str, int]:
    job, _, index = path.stem.rpartition("-")
    return job, int(index) if index.isdigit() else 0

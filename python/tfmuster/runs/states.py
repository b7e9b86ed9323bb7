"""What each worker is doing, in words, for whoever watches: ``states/worker-0.json`` in the run directory.

A worker of ``tfmuster launch`` writes its own file, and nothing else anywhere else; the launcher's table and
``tfmuster runs show`` read all of them. No process waits for another because of it.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from ..cluster.tf_config import current_task
from ..environment import RUN_DIR_VARIABLE
from ..errors import TfmusterError
from .layout import STATES, file_stem, read_json, task_of, write_json

#: Names shown of those who are waited for.
_MOST_NAMES = 8
_phases: dict[Path, str] = {}


def say_state(text: str, *, serves: bool = False) -> None:
    """Note what this process does now, if it is a worker of ``tfmuster launch``.

    What can't be written is left: a state is worth no failure.

    Parameters
    ----------
    text : str
        In words.
    serves : bool
        Whether this process serves those that train, and ends by itself when they are done.
    """
    if path := _own_path():
        _note_phase(path, text.partition(" ")[0])
        with contextlib.suppress(OSError):
            path.parent.mkdir(exist_ok=True)
            write_json(path, {"text": text, "time": time.time(), "serves": serves})


def say_phase(phase: str) -> None:
    """Note that this process begins to do something that is no news to whoever watches."""
    if path := _own_path():
        _note_phase(path, phase)


def _note_phase(path: Path, phase: str) -> None:
    """Note when this process began to do something else."""
    if _phases.get(path) != phase:
        _phases[path] = phase
        note_phase(path.parent.parent, task_of(path.stem), phase)


def say_waiting(progress: Mapping[str, Any]) -> None:
    """Note for whom the rendezvous waits, by what it tells of its progress."""
    names = list(progress.get("waiting", ()))
    if not names:
        say_state("starting" if "waiting" in progress else str(progress["text"]))
        return
    shown = ", ".join(names[:_MOST_NAMES])
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    say_state(f"waiting for {shown}{more}")


def read_states(run_dir: Path) -> dict[str, str]:
    """What each task has noted last, by the task's name, such as ``worker 0``."""
    return {task: str(said["text"]) for task, said in _read_all(run_dir).items() if "text" in said}


def read_serving(run_dir: Path) -> set[str]:
    """The tasks that have said that they serve others, and end by themselves."""
    return {task for task, said in _read_all(run_dir).items() if said.get("serves")}


def _read_all(run_dir: Path) -> dict[str, dict[str, Any]]:
    paths = run_dir.joinpath(STATES).glob("[a-z]*.json")
    return {task_of(path.stem): read_json(path) for path in paths}


def forget_states(run_dir: Path) -> None:
    """Remove what tasks of an earlier attempt have noted."""
    for path in run_dir.joinpath(STATES).glob("*.json"):
        path.unlink(missing_ok=True)


def _own_path() -> Path | None:
    folder, place = os.environ.get(RUN_DIR_VARIABLE), os.environ.get("TF_CONFIG")
    return _path(folder, place) if folder and place else None


@functools.lru_cache(maxsize=1)
def _path(folder: str, tf_config: str) -> Path | None:
    """The file of the task that `tf_config` names; the text may be long, and is read each second."""
    with contextlib.suppress(TfmusterError):
        if task := current_task({"TF_CONFIG": tf_config}):
            return Path(folder, STATES, f"{file_stem(task.name)}.json")
    return None


def note_phase(run_dir: Path, task: str, phase: str) -> None:
    """Add a line. What can't be written is left: a picture is worth no failure."""
    path = run_dir / STATES / f"{file_stem(task)}.jsonl"
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
        events[task_of(path.stem)] = sorted(told, key=lambda event: event["time"])
    return events


def _place(path: Path) -> tuple[str, int]:
    job, _, index = path.stem.rpartition("-")
    return job, int(index) if index.isdigit() else 0

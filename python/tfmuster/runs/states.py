"""What each worker is doing, for whoever watches: ``states/worker-0.json`` in the run directory.

A worker of ``tfmuster launch`` writes its own file, and nothing else anywhere else; the launcher's table and
``tfmuster runs show`` read all of them. No process waits for another because of it.

The file is one JSON object. ``text`` is for people, and is rendered from the other fields, here and nowhere
else. Programs read the fields: ``phase``, ``time`` (seconds since 1970), ``serves``, and those of
:class:`State` that are known. A number that JSON cannot represent is a string: ``"nan"``, ``"inf"`` or
``"-inf"``.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from ..cluster.tf_config import current_task
from ..environment import RUN_DIR_VARIABLE
from ..errors import TfmusterError
from .layout import STATES, append_json, file_stem, read_json, task_of, write_json

#: Names shown of the tasks that are missing, and metrics shown beside the step.
_MOST_NAMES, _MOST_METRICS = 8, 2
_phases: dict[Path, str] = {}


@dataclass(frozen=True)
class State:
    """What a task is doing.

    Parameters
    ----------
    phase : str
        In one word: ``waiting``, ``starting``, ``tracing``, ``training``, ``trained``, ``testing``,
        ``evaluating`` or ``serving``. Its supervisor also knows ``running``, ``stopped``, ``done``,
        ``failed``, ``ended`` and ``lost``.
    epoch, epochs : int, optional
        The epoch, from 1, and how many there will be.
    step, steps : int, optional
        The steps of the epoch that are done, and how many it has.
    metrics : mapping of float
        All of them, by the names that Keras gives them.
    steps_per_second : float, optional
        The speed in this epoch, its first step left out.
    images_per_second : float, optional
        The same in images, on all workers together.
    waiting : tuple of str
        The tasks that are missing, such as ``worker 2``; for one that does not reach the chief, the chief.
    address : str
        Where the chief is expected, for a task that does not reach it.
    reason : str
        Why it is not reached.
    serves : bool
        Whether the task serves those that train, and ends by itself when they are done.
    time : float, optional
        When the task noted it, seconds since 1970.
    """

    phase: str
    epoch: int | None = None
    epochs: int | None = None
    step: int | None = None
    steps: int | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    steps_per_second: float | None = None
    images_per_second: float | None = None
    waiting: tuple[str, ...] = ()
    address: str = ""
    reason: str = ""
    serves: bool = False
    time: float | None = None

    @classmethod
    def from_dict(cls, said: Mapping[str, Any]) -> State | None:
        """The state that a JSON object describes; None if it describes none."""
        try:
            numbers: dict[str, Any] = {name: int(said[name]) for name in _COUNTS if name in said}
            numbers |= {name: float(said[name]) for name in _FLOATS if name in said}
            return cls(
                phase=str(said["phase"]),
                **numbers,
                metrics={str(name): float(value) for name, value in said.get("metrics", {}).items()},
                waiting=tuple(map(str, said.get("waiting", ()))),
                address=str(said.get("address", "")),
                reason=str(said.get("reason", "")),
                serves=bool(said.get("serves")),
            )
        except (LookupError, TypeError, ValueError, AttributeError):
            return None

    def to_dict(self) -> dict[str, Any]:
        """``phase``, ``serves``, and those of the other fields that are known; without the text."""
        known = {
            **{name: getattr(self, name) for name in _COUNTS},
            "metrics": dict(self.metrics),
            "steps_per_second": self.steps_per_second,
            "images_per_second": self.images_per_second,
            "waiting": list(self.waiting),
            "address": self.address,
            "reason": self.reason,
            "time": self.time,
        }
        known = {name: value for name, value in known.items() if value not in (None, "", [], {})}
        return {"phase": self.phase, **known, "serves": self.serves}

    @property
    def text(self) -> str:
        """The state in words, one line."""
        if self.phase == "waiting":
            return self._waiting_text()
        if self.phase == "stopped":
            return "stopped by a signal"
        step = [f"step {_of(self.step, self.steps)}"] if self.step is not None else []
        return "  ".join([self.phase, *self._epoch_text(), *step, *self._figures()])

    @property
    def text_beside_bar(self) -> str:
        """The same, without what a progress bar of the epoch's steps shows itself."""
        if self.phase != "training":
            return self.text
        return "  ".join([*self._epoch_text(), *self._figures()]) or self.phase

    def _epoch_text(self) -> list[str]:
        return [f"epoch {_of(self.epoch, self.epochs)}"] if self.epoch is not None else []

    def _figures(self) -> list[str]:
        """The loss and the first metric, and the speed."""
        shown = sorted(self.metrics.items(), key=lambda item: item[0] != "loss")[:_MOST_METRICS]
        figures = [f"{name} {value:.4f}" for name, value in shown]
        if self.images_per_second is not None:
            figures.append(f"{self.images_per_second:,.0f} images/s")
        elif self.steps_per_second is not None:
            figures.append(f"{self.steps_per_second:.1f} steps/s")
        return figures

    def _waiting_text(self) -> str:
        if not self.waiting:
            return self.phase
        shown = ", ".join(self.waiting[:_MOST_NAMES])
        if self.address:
            return f"waiting for {shown}, the chief, at {self.address}: {self.reason}"
        more = f" and {len(self.waiting) - _MOST_NAMES} more" if len(self.waiting) > _MOST_NAMES else ""
        return f"waiting for {shown}{more}"


_COUNTS = ("epoch", "epochs", "step", "steps")
_FLOATS = ("steps_per_second", "images_per_second", "time")


def _of(number: int, total: int | None) -> str:
    return f"{number}/{total}" if total else str(number)


def say_state(state: State) -> None:
    """Note what this process does now, if it is a worker of ``tfmuster launch``.

    What can't be written is left: a state is worth no failure.
    """
    if path := _own_path():
        _note_phase(path, state.phase)
        with contextlib.suppress(OSError):
            path.parent.mkdir(exist_ok=True)
            known = replace(state, time=time.time()).to_dict()
            write_json(path, {"text": state.text, **_in_json(known)})


def _in_json(known: Mapping[str, Any]) -> dict[str, Any]:
    """The same, with numbers that JSON does not have as strings, from which `float` makes them again."""
    return {name: _number_in_json(value) for name, value in known.items()}


def _number_in_json(value: Any) -> Any:
    if isinstance(value, dict):
        return _in_json(value)
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


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
    """Note which tasks the rendezvous waits for, by what it tells of its progress."""
    say_state(waiting_state(progress) if progress.get("waiting") else State("starting"))


def waiting_state(progress: Mapping[str, Any]) -> State:
    """The state of a task in the rendezvous.

    Parameters
    ----------
    progress : mapping
        ``waiting`` (names of tasks), and until the chief is reached its ``address`` and the ``reason``.
    """
    return State(
        "waiting",
        waiting=tuple(map(str, progress["waiting"])),
        address=str(progress.get("address", "")),
        reason=str(progress.get("reason", "")),
    )


def read_states(run_dir: Path) -> dict[str, State]:
    """What each task has noted last, by the task's name, such as ``worker 0``."""
    paths = run_dir.joinpath(STATES).glob("[a-z]*.json")
    states = {task_of(path.stem): State.from_dict(read_json(path)) for path in paths}
    return {task: state for task, state in states.items() if state is not None}


def read_serving(run_dir: Path) -> set[str]:
    """The tasks that have said that they serve others, and end by themselves."""
    return {task for task, state in read_states(run_dir).items() if state.serves}


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
        append_json(path, {"time": time.time(), "phase": phase})


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

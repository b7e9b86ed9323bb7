"""Record and read what each worker is doing, in ``states/worker-0.json`` of the run directory.

Each worker of ``tfmuster launch`` writes only its own file. The launcher's table and ``tfmuster runs show``
read all of them. No process waits for another.

The file is one JSON object. ``text`` is for people. Only this module renders it, from the other fields.
Programs read the fields: ``phase``, ``time`` (seconds since the epoch), ``serves``, and the fields of
:class:`State` that are known. A number that JSON can't represent is a string: ``"nan"``, ``"inf"`` or
``"-inf"``.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final

from ...cluster.tf_config import current_task
from ...errors import TfmusterError
from ..record.layout import (
    STATES,
    append_json,
    file_stem,
    own_run_dir,
    read_json,
    read_json_lines,
    task_of,
    task_order,
    write_json,
)

#: How many missing tasks are named, and how many metrics are shown beside the step.
_MOST_NAMES, _MOST_METRICS = 8, 2
#: Smallest share of the time for which it is said that a task waits for another.
_LEAST_WAIT = 0.1
#: What a task does in each phase before it trains, in words; "waiting" also names the missing tasks.
_STARTING: Mapping[str, str] = {
    "starting": "starting",
    "importing": "importing {library}",
    "preparing": "preparing",
    "waiting": "waiting",
    "joined": "connecting",
    "building": "making the model",
    "tracing": "tracing",
    "first step": "running its first step",
}
#: Phases whose end is not seen in every program: others than Keras's `fit` may compute.
UNSEEN_ENDS: Final = ("starting", "preparing", "building")
#: Fields that say how fast a task trains.
SPEEDS = ("steps_per_second", "images_per_second")
_phases: dict[Path, str] = {}


@dataclass(frozen=True)
class State:
    """The state of a task."""

    #: ``importing``, ``preparing``, ``waiting``, ``joined``, ``building``, ``tracing``, ``first step``,
    #: ``training``, ``trained``, ``testing``, ``evaluating``, ``serving`` or ``running``. Its supervisor also
    #: knows ``starting``, ``stopped``, ``done``, ``failed``, ``ended`` and ``lost``.
    phase: str
    #: For how long it has been in a phase before it trains, in seconds. Only its supervisor knows that.
    seconds: float | None = None
    #: The library that it imports, such as ``TensorFlow``.
    library: str = ""
    #: Current epoch, from 1, and number of epochs.
    epoch: int | None = None
    epochs: int | None = None
    #: Steps done in this epoch, and number of steps in it.
    step: int | None = None
    steps: int | None = None
    #: All metrics, by their names in Keras.
    metrics: Mapping[str, float] = field(default_factory=dict)
    #: Speed in this epoch, without its first step; in images, of all workers together.
    steps_per_second: float | None = None
    images_per_second: float | None = None
    #: Share of the time, from 0 to 1, in which the task summed gradients and logs with the other workers, in
    #: this epoch without its first step. Not known if TensorFlow's collectives sum them.
    sum_share: float | None = None
    #: Share of the time in which it only waited in them for workers that were not there yet.
    wait_share: float | None = None
    #: The worker for which it waited longest, such as ``worker 2``.
    waits_for: str = ""
    #: Missing tasks, such as ``worker 2``. If this task can't reach the chief, only the chief.
    waiting: tuple[str, ...] = ()
    #: Address of the chief, if this task can't reach it, and why it can't.
    address: str = ""
    reason: str = ""
    #: Whether the task serves the tasks that train, and ends by itself when they have finished.
    serves: bool = False
    #: When the task recorded the state, in seconds since the epoch.
    time: float | None = None

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> State | None:
        """Make a state from a JSON object; None if the object is not a state."""
        try:
            readers = _readers()
            return cls(**{name: readers[name](value) for name, value in values.items() if name in readers})
        except (TypeError, ValueError, OverflowError, AttributeError):
            return None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that are known, without the text."""
        known = self._known([field.name for field in fields(self)])
        return {name: list(x) if isinstance(x, tuple) else x for name, x in known.items()}

    @property
    def measured(self) -> dict[str, Any]:
        """Return what is kept of a training: the shares and speeds that are known."""
        return self._known([*_SHARES, *SPEEDS])

    def _known(self, names: Iterable[str]) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in names}
        return {name: value for name, value in values.items() if value not in (None, "", (), {})}

    @property
    def starts(self) -> bool:
        """Whether the task does not train yet."""
        return self.phase in _STARTING

    @property
    def text(self) -> str:
        """Describe the state in one line."""
        if self.starts:
            for_seconds = [] if self.seconds is None else [f"{self.seconds:.0f} s"]
            return "  ".join([self.text_of_start, *for_seconds])
        if self.phase == "stopped":
            return "stopped by a signal"
        if self.phase == "trained":
            return self.phase
        step = [f"step {_of(self.step, self.steps)}"] if self.step is not None else []
        return "  ".join([self.phase, *self._epoch_text(), *step, *self._figures()])

    @property
    def text_of_start(self) -> str:
        """Describe what a task does that starts, without its time."""
        if self.phase == "waiting" and self.waiting:
            return self._waiting_text()
        return _STARTING.get(self.phase, self.phase).replace("{library}", self.library).rstrip()

    @property
    def text_beside_bar(self) -> str:
        """Describe the state without the step, which a progress bar shows."""
        if self.phase != "training":
            return self.text
        return "  ".join([*self._epoch_text(), *self._figures()]) or self.phase

    def _epoch_text(self) -> list[str]:
        return [f"epoch {_of(self.epoch, self.epochs)}"] if self.epoch is not None else []

    def _figures(self) -> list[str]:
        """Return the loss, the first metric and the speed as texts."""
        shown = sorted(self.metrics.items(), key=lambda item: item[0] != "loss")[:_MOST_METRICS]
        figures = [f"{name} {value:.4f}" for name, value in shown]
        figures += filter(None, [speed_text(self.measured)])
        if self.awaited:
            figures.append(f"waits {self.wait_share:.0%} for {self.awaited}")
        return figures

    @property
    def awaited(self) -> str:
        """The task for which this one waits; "" if it hardly waits."""
        return self.waits_for if (self.wait_share or 0) >= _LEAST_WAIT else ""

    def _waiting_text(self) -> str:
        shown = ", ".join(self.waiting[:_MOST_NAMES])
        if self.address:
            return f"waiting for {shown}, the chief, at {self.address}: {self.reason}"
        more = f" and {len(self.waiting) - _MOST_NAMES} more" if len(self.waiting) > _MOST_NAMES else ""
        return f"waiting for {shown}{more}"


_SHARES = ("sum_share", "wait_share", "waits_for")
_READERS: Mapping[str, Callable[[Any], Any]] = {
    "str": str,
    "bool": bool,
    "int": int,
    "float": float,
    "Mapping[str, float]": lambda metrics: {str(name): float(value) for name, value in metrics.items()},
    "tuple[str, ...]": lambda names: tuple(map(str, names)),
}


@functools.cache
def _readers() -> dict[str, Callable[[Any], Any]]:
    """Return what reads each field of a state. Some may be missing."""
    return {known.name: _READERS[str(known.type).partition(" |")[0]] for known in fields(State)}


def speed_text(measured: Mapping[str, Any]) -> str:
    """Return the speed in `State.measured`, in images/s or else in steps/s; "" if none is known."""
    if (images := measured.get("images_per_second")) is not None:
        return f"{images:,.0f} images/s"
    if (steps := measured.get("steps_per_second")) is not None:
        return f"{steps:.1f} steps/s"
    return ""


def _of(number: int, total: int | None) -> str:
    return f"{number}/{total}" if total else str(number)


def say_state(state: State) -> None:
    """Record the state of this process, if it is a worker of ``tfmuster launch``. Ignore write errors."""
    if path := own_state_path():
        _note_phase(path, state.phase, state.measured if state.phase == "trained" else None)
        with contextlib.suppress(OSError):
            path.parent.mkdir(exist_ok=True)
            known = replace(state, time=time.time()).to_dict()
            write_json(path, {"text": state.text, **{name: _in_json(value) for name, value in known.items()}})


def _in_json(value: object) -> object:
    """Replace numbers that JSON does not have with strings, which `float` can read."""
    if isinstance(value, dict):
        return {name: _in_json(item) for name, item in value.items()}
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def own_phase() -> str:
    """Return the phase that this process has recorded last; "" without one."""
    path = own_state_path()
    return _phases.get(path, "") if path else ""


def _note_phase(path: Path, phase: str, measured: Mapping[str, object] | None = None) -> None:
    """Record the time of a change of phase."""
    if _phases.get(path) != phase:
        _phases[path] = phase
        note_phase(path.parent.parent, task_of(path.stem), phase, measured)


def say_waiting(progress: Mapping[str, Any]) -> None:
    """Record which tasks the rendezvous waits for, from its progress report."""
    say_state(waiting_state(progress))


def waiting_state(progress: Mapping[str, Any]) -> State:
    """Return the state of a task in the rendezvous.

    `progress` has ``waiting`` (names of tasks, if any), and while the chief can't be reached its ``address``
    and the ``reason``.
    """
    return State(
        "waiting",
        waiting=tuple(map(str, progress.get("waiting", ()))),
        address=str(progress.get("address", "")),
        reason=str(progress.get("reason", "")),
    )


def read_states(run_dir: Path) -> dict[str, State]:
    """Read the latest state of each task, by the task's name, such as ``worker 0``."""
    states = {task: read_state(run_dir, task) for task in tasks_with_states(run_dir)}
    return {task: state for task, state in states.items() if state is not None}


def read_state(run_dir: Path, task: str) -> State | None:
    """Read the latest state of one task; None if it has none."""
    return State.from_dict(read_json(_path_of(run_dir, task, "json")))


def read_serving(run_dir: Path) -> set[str]:
    """Return the tasks that serve others and end by themselves, according to their states."""
    return {task for task, state in read_states(run_dir).items() if state.serves}


def forget_states(run_dir: Path) -> None:
    """Remove the states of an earlier attempt."""
    for path in run_dir.joinpath(STATES).glob("*.json"):
        path.unlink(missing_ok=True)


def own_state_path() -> Path | None:
    """Return the file of this process's state, if it is a worker of ``tfmuster launch``."""
    run_dir, place = own_run_dir(), os.environ.get("TF_CONFIG")
    return _path(run_dir, place) if run_dir and place else None


@functools.lru_cache(maxsize=1)
def _path(run_dir: Path, tf_config: str) -> Path | None:
    """Return the file of the task that `tf_config` names. Cached, because it is needed every second."""
    with contextlib.suppress(TfmusterError):
        if task := current_task({"TF_CONFIG": tf_config}):
            return run_dir / STATES / f"{file_stem(task.name)}.json"
    return None


def note_phase(run_dir: Path, task: str, phase: str, measured: Mapping[str, object] | None = None) -> None:
    """Append a line to the task's timeline, maybe with `State.measured`. Ignore write errors."""
    path = run_dir / STATES / f"{file_stem(task)}.jsonl"
    with contextlib.suppress(OSError):
        path.parent.mkdir(exist_ok=True)
        append_json(path, {"time": time.time(), "phase": phase, **(measured or {})})


def read_events(run_dir: Path) -> dict[str, list[dict[str, Any]]]:
    """Read each task's phases in order: ``phase`` and ``time`` (seconds since the epoch).

    ``trained`` also has `State.measured`, as far as it is known.
    """
    return {
        task: read_events_of(run_dir, task)
        for task in tasks_with_states(run_dir)
        if os.path.exists(_path_of(run_dir, task, "jsonl"))
    }


def tasks_with_states(run_dir: Path) -> list[str]:
    """Return the tasks that have recorded a state or a phase, in the order of their indices."""
    with contextlib.suppress(OSError):
        # Of a thousand tasks, the launcher asks every second.
        files = (name.rpartition(".") for name in os.listdir(f"{run_dir}/{STATES}"))
        stems = {stem for stem, _, suffix in files if suffix in ("json", "jsonl") and "-" in stem}
        return [task_of(stem) for stem in sorted(stems, key=task_order)]
    return []


def _path_of(run_dir: Path, task: str, suffix: str) -> str:
    return f"{run_dir}/{STATES}/{file_stem(task)}.{suffix}"


def read_events_of(run_dir: Path, task: str, having: Iterable[str] = ("phase",)) -> list[dict[str, Any]]:
    """Read the phases of one task that have one of these fields; see :func:`read_events`."""
    lines = read_json_lines(_path_of(run_dir, task, "jsonl"))
    states = filter(None, (State.from_dict(line) for line in lines if not line.keys().isdisjoint(having)))
    return sorted(
        (
            {"time": state.time, "phase": state.phase, **state.measured}
            for state in states
            if state.time is not None and math.isfinite(state.time)
        ),
        key=lambda event: event["time"],
    )


def read_shares(run_dir: Path) -> dict[str, dict[str, Any]]:
    """Read each task's shares of the time (see `State`) in its last training, as far as they are known."""
    return {
        task: {name: event[name] for name in _SHARES if name in event}
        for task, events in read_events(run_dir).items()
        for event in events
        if "sum_share" in event
    }

"""How fast a run trains, as its workers have reported it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .run import Run
from .states import SPEEDS, read_events, read_states


def speeds(run: Run) -> dict[str, dict[str, Any]]:
    """Return ``steps_per_second``, and if known ``images_per_second``, of each task in its last training."""
    found: dict[str, dict[str, Any]] = {}
    for task, events in read_events(run.path).items():
        for event in events:
            if told := {name: event[name] for name in SPEEDS if name in event}:
                found[task] = told
    for task, state in read_states(run.path).items():
        if state.phase == "training" and state.steps_per_second is not None:
            found[task] = state.measured
    return found


def speed_of(run: Run) -> str:
    """Return the speed of a run, which its workers have together; "" if none is known."""
    return speed_text(next(iter(speeds(run).values()), {}))


def speed_text(told: Mapping[str, Any]) -> str:
    """Return a speed in images/s, or else in steps/s; "" if none is known."""
    if (images := told.get("images_per_second")) is not None:
        return f"{images:,.0f} images/s"
    if (steps := told.get("steps_per_second")) is not None:
        return f"{steps:.1f} steps/s"
    return ""

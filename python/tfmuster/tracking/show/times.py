"""Times, durations, and speeds of a run, as people read them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ..live.states import SPEEDS, read_events, read_states
from ..record.layout import UNFINISHED
from ..run import Run


def local_time(text: str | None) -> str | None:
    """Return a time of a run, which is in UTC, as the user's clock shows it."""
    try:
        return None if text is None else f"{datetime.fromisoformat(text).astimezone():%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError):
        # A year that no clock shows.
        return text


def seconds_of(run: Run) -> float | None:
    """Return how long a run took, or has taken so far, in seconds; None if that is not known."""
    started, status = run.info().get("started"), run.status()
    if started is None:
        return None
    end = time.time()
    if status["state"] not in UNFINISHED:
        if "updated" not in status:
            return None
        end = datetime.fromisoformat(status["updated"]).timestamp()
    return max(0.0, end - datetime.fromisoformat(started).timestamp())


def in_words(seconds: float) -> str:
    """Return a duration in at most two units, such as ``"4.2 s"``, ``"3 min 20 s"`` or ``"2 h 5 min"``."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h"


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

"""Times and durations of a run, as people read them."""

from __future__ import annotations

import time
from datetime import datetime
from typing import TYPE_CHECKING

from .layout import UNFINISHED

if TYPE_CHECKING:
    from .run import Run


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

"""A run as rows of a table, for data frames: one row per task, and one for the run."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ...system.terminal_text import visible
from ..record.layout import UNFINISHED, utc_now
from ..run import Run

_PROGRESS = (
    *("epoch", "epochs", "step", "steps", "steps_per_second", "images_per_second"),
    *("sum_share", "wait_share", "waits_for"),
)


def task_rows(run: Run) -> list[dict[str, Any]]:
    """Return one row per task: what :meth:`Run.status` knows of it, None for what is not known.

    The texts are for a terminal, whoever has written them.
    """
    rows = []
    for task, entry in run.status()["tasks"].items():
        progress = entry.get("progress", {})
        known = {
            "task": task,
            **{name: entry.get(name) for name in ("state", "host", "pid", "exit_code", "doing")},
            **{name: progress.get(name) for name in _PROGRESS},
        }
        rows.append({name: visible(x) if isinstance(x, str) else x for name, x in known.items()})
    return rows


def glance_row(run: Run) -> dict[str, Any]:
    """Return one row: the run's state, counts and times, and its last metrics in ``metrics``.

    ``seconds`` is the time from the start to the end, or until now; None if the start is not known.
    """
    info, status, history = run.info(), run.status(), run.history()
    end = utc_now() if status["state"] in UNFINISHED else status.get("updated")
    started = info.get("started")
    return {
        "name": run.name,
        "state": status["state"],
        "tasks": len(status["tasks"]),
        "restarts": status["restarts"],
        "started": started,
        "seconds": _seconds_between(started, end),
        "epochs": max(map(len, history.values()), default=0),
        "metrics": {visible(name): values[-1] for name, values in history.items()},
    }


def _seconds_between(start: str | None, end: str | None) -> float | None:
    if start is None or end is None:
        return None
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()

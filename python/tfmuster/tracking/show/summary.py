"""Summarize a run: for a terminal, for other programs, and as rows of a data frame."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from ...options.hints import Hint
from ...system.terminal_text import safe_text, visible
from ..failure.failure import Failure, signal_name
from ..live.machines import read_machines
from ..live.states import SPEEDS, read_events_of, read_state, speed_text, tasks_with_states
from ..record.layout import CALL, UNFINISHED
from ..record.lines import epoch_line, read_last_metrics
from ..record.recording import unreadable
from ..run import Run
from .facts import facts, launch_line


def local_time(text: str | None) -> str | None:
    """Return a time of a run, which is in UTC, as the user's clock shows it."""
    try:
        return text and datetime.fromisoformat(text).astimezone().isoformat(" ", "seconds")[:19]
    except (ValueError, OverflowError):
        # A year that no clock shows.
        return text


def seconds_of(info: Mapping[str, Any], status: Mapping[str, Any]) -> float | None:
    """Return how long a run took, or has taken so far, in seconds; None if that is not known."""
    started = info.get("started")
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
    return dict(_each_speed(run.path))


def _each_speed(run_dir: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the speed of each task that has one; only the files of those that are asked for are read."""
    for task in tasks_with_states(run_dir):
        events, state = read_events_of(run_dir, task, SPEEDS), read_state(run_dir, task)
        measured = [event for event in events if not event.keys().isdisjoint(SPEEDS)][-1:]
        if state is not None and state.phase == "training" and state.steps_per_second is not None:
            measured = [state.measured]
        for known in measured:
            yield task, {name: known[name] for name in SPEEDS if name in known}


def speed_of(run_dir: Path) -> str:
    """Return the speed of a run, which its workers have together; "" if none is known."""
    return speed_text(next((known for _, known in _each_speed(run_dir)), {}))


_PROGRESS = (
    *("epoch", "epochs", "step", "steps", "steps_per_second", "images_per_second"),
    *("sum_share", "wait_share", "waits_for"),
)


def task_rows(run: Run) -> list[dict[str, Any]]:
    """Return a row of terminal-safe texts per task, from :meth:`Run.status`; None for what is not known."""
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
    return {
        "name": run.name,
        "state": status["state"],
        "tasks": len(status["tasks"]),
        "restarts": status["restarts"],
        "started": info.get("started"),
        "seconds": seconds_of(info, status),
        "epochs": max(map(len, history.values()), default=0),
        "metrics": {visible(name): values[-1] for name, values in history.items()},
    }


def last_epoch(run: Run) -> str:
    """Describe the last finished epoch and its metrics, for a terminal; "" before the first."""
    values = read_last_metrics(run.path)
    return visible(epoch_line(values)) if values else ""


def summary(run: Run) -> dict[str, str]:
    """Summarize a run by label, in terminal-safe texts: its program, tasks, notes and first failure."""
    info, status, error = run.info(), run.status(), run.error()
    command = shlex.join(info.get("command", []))
    known: dict[str, Any] = {
        "run": str(run.path),
        "state": status["state"] + (f", {status['restarts']} restarts" if status["restarts"] else ""),
        "started": local_time(info.get("started")),
        "took" if status["state"] not in UNFINISHED else "running for": took(info, status),
        # For a function, the command is a file of this package, which tells the user nothing.
        **({"function": info.get("name")} if (run.path / CALL).is_dir() else {"command": command}),
        "training": _training(info),
        "host": info.get("host"),
        **{task: _task_line(entry, info.get("host")) for task, entry in status["tasks"].items()},
        **facts(run),
        "last epoch": last_epoch(run),
        "speed": speed_of(run.path),
        "model": str(run.model_path) if run.model_path.exists() else None,
        "unreadable": unreadable(run.path),
    }
    if error:
        failure = Failure.from_dict(error)
        how = failure.shown_error or error["signal"] or f"exit code {error['exit_code']}"
        lines = [f"{error['task']} at {local_time(error['time'])}: {how}", *failure.frames()]
        known["first failure"] = "\n  ".join(lines)
        # An error of tfmuster says it itself.
        known["to do"] = error["fix"] if "\n  to do: " not in how else None
    return {visible(label): safe_text(str(value)) for label, value in known.items() if value}


def _training(info: dict[str, Any]) -> str | None:
    """Say what the options of a launch have made of the training; None without such an option."""
    if info.get("independent"):
        return f"each worker trains a model of its own ({Hint('independent', True)})"
    if info.get("distribute"):
        batch = "multiplied by the number of workers" if info.get("scale_batch") else "that of all workers"
        return f"all workers train one model ({Hint('distribute', True)}); batch_size is {batch}"
    return None


def document(run: Run) -> dict[str, Any]:
    """Return everything that a run directory says as one JSON document, for other programs."""
    odd = unreadable(run.path)
    return {
        "path": str(run.path),
        **run.info(),
        "status": run.status(),
        "history": run.history(),
        "notes": run.notes(),
        "run_again": launch_line(run),
        "machines": read_machines(run.path),
        "error": run.error(),
        **({"unreadable": odd} if odd else {}),
    }


def _task_line(entry: dict[str, Any], launcher: str | None) -> str:
    """Describe a task: its state, host (unless it is the launcher's), process and exit code."""
    code, host, pid, doing = (entry.get(key) for key in ("exit_code", "host", "pid", "doing"))
    text = str(entry["state"])
    text += f" on {host}" if host and host != launcher else ""
    text += f", process {pid}" if pid else ""
    text += f": {doing}" if doing else ""
    if code is None:
        return text
    return f"{text}, {signal_name(-code)}" if code < 0 else f"{text}, exit code {code}"


def took(info: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    """Return how long a run took, or has taken so far; "" if that is not known."""
    seconds = seconds_of(info, status)
    return "" if seconds is None else in_words(seconds)

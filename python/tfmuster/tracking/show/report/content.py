"""Gather what the report of a run shows; the templates say how."""

from __future__ import annotations

import shlex
import time
from typing import Any

from ....system.tensorflow_import import HAVE_GPU
from ....system.terminal_text import is_chatter
from ...failure.failure import Failure
from ...live.states import SPEEDS, read_events, read_shares
from ...record.layout import UNFINISHED, utc_now
from ...record.records import unreadable
from ...run import Run
from ..listing import last_epoch, took
from ..tail import log_lines
from ..times import local_time, speed_of, speed_text, speeds
from .charts import curves, timeline

_TAIL_LINES = 40
#: How many lines are read, of which those of TensorFlow's native libraries are left out.
_READ_LINES = 400
#: How often a browser loads a page about a run that continues again, in seconds.
RENEWAL_SECONDS = 5


def content(run: Run) -> dict[str, Any]:
    """Return the values of ``page.html``."""
    info, status = run.info(), run.status()
    unfinished = status["state"] in UNFINISHED
    return {
        "name": run.name,
        "state": str(status["state"]),
        "now": local_time(utc_now()),
        "renewal": RENEWAL_SECONDS if unfinished else None,
        "failure": _failure(run),
        "summary": _summary(run, info, status),
        "cluster": _cluster(info, status),
        "curves": curves(run.history()),
        "timeline": timeline(read_events(run.path), time.time() if unfinished else 0.0),
        "workers": _workers(run),
        "logs": [{"task": task, "lines": _last_lines(run, task)} for task in run.log_paths()],
        "environment": _environment(info),
    }


def _failure(run: Run) -> dict[str, Any] | None:
    error = run.error()
    if error is None:
        return None
    failure = Failure.from_dict(error)
    text = "\n".join(str(failure).splitlines()[1:]).strip()
    return {"headline": failure.headline(), "time": local_time(error["time"]), "text": text}


def _summary(run: Run, info: dict[str, Any], status: dict[str, Any]) -> dict[str, str]:
    known = {
        "started": local_time(info.get("started")),
        "took" if status["state"] not in UNFINISHED else "running for": took(run),
        "speed": speed_of(run),
        "command": shlex.join(map(str, info.get("command", []))),
        "directory": info.get("directory"),
        "run directory": run.path,
        "restarts": status["restarts"] or None,
        "last epoch": last_epoch(run),
        "model": run.model_path if run.model_path.exists() else None,
        "unreadable": unreadable(run.path),
    }
    return {label: str(value) for label, value in known.items() if value}


def _cluster(info: dict[str, Any], status: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return a row for each task: its name, address, host, state and exit code."""
    rows: list[tuple[str, ...]] = []
    for job, addresses in info.get("cluster", {}).items():
        for index, address in enumerate(addresses):
            entry = status["tasks"].get(f"{job} {index}", {})
            code = entry.get("exit_code")
            rows.append(
                (
                    f"{job} {index}",
                    str(address),
                    str(entry.get("host") or info.get("host", "")),
                    str(entry.get("doing") or entry.get("state", "")),
                    "" if code is None else str(code),
                )
            )
    return rows


def _workers(run: Run) -> list[tuple[str, ...]]:
    """Return how fast each task trains, and how long it waits for others."""
    fast, shares = speeds(run), read_shares(run.path)
    rows: list[tuple[str, ...]] = []
    for task in read_events(run.path):
        if task not in fast and task not in shares:
            continue
        share = shares.get(task, {})
        rows.append(
            (
                task,
                _speeds_text(fast.get(task, {})),
                f"{share['sum_share']:.0%}" if share else "",
                f"{share.get('wait_share', 0):.0%}" if share else "",
                share.get("waits_for", ""),
            )
        )
    return rows


def _speeds_text(told: dict[str, Any]) -> str:
    texts = [speed_text({name: told[name]}) for name in reversed(SPEEDS) if name in told]
    return ", ".join(texts)


def _last_lines(run: Run, task: str) -> list[str]:
    """Return the last lines of a task's output, without those of TensorFlow's native libraries."""
    said = [line.partition(" | ")[2] for line in log_lines(run, task, lines=_READ_LINES)]
    return [line for line in said if not is_chatter(line, gpu=HAVE_GPU)][-_TAIL_LINES:]


def _environment(info: dict[str, Any]) -> dict[str, str]:
    known = {str(name): str(version) for name, version in info.get("versions", {}).items()}
    if "git" in info:
        changed = ", with changes" if info["git"]["changed"] else ""
        known["git commit"] = f"{info['git']['commit']}{changed}"
    known["host"] = str(info.get("host", ""))
    return known

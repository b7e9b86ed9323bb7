"""Tell where the time to the first step went, and who waited for whom, for ``tfmuster launch --timings``."""

from __future__ import annotations

import os
import time
from pathlib import Path

import psutil

from ...tracking.live.states import read_events, read_shares
from ...tracking.run import Run

#: Spans between the recorded phases of a task. A phase may occur twice: "starting" is recorded before and
#: after the rendezvous.
_SPANS = (
    ("interpreter", "started", "importing"),
    ("import of TensorFlow", "importing", "starting"),
    ("program, to the rendezvous", "starting", "waiting"),
    ("rendezvous", "waiting", "joined"),
    ("strategy", "joined", "building"),
    ("model and data", "building", "tracing"),
    ("first step", "tracing", "training"),
)


def timings(run: Run) -> dict[str, dict[str, float]]:
    """Return the length of each span in seconds, by task. Spans that a task has not finished are left out.

    ``launcher`` is the time from the start of this process, the launcher, to the start of the task's.
    """
    launcher = _own_start()
    spans: dict[str, dict[str, float]] = {}
    for task, events in read_events(run.path).items():
        times: dict[str, float] = {}
        for event in events:
            times.setdefault(event["phase"], event["time"])
        if "started" in times:
            known = [span for span in _SPANS if span[1] in times and span[2] in times]
            spans[task] = {"launcher": times["started"] - launcher}
            spans[task] |= {name: times[then] - times[first] for name, first, then in known}
    return spans


def timings_table(run: Run) -> str:
    """Format the timings as a table with a column for each task."""
    spans = timings(run)
    names = ["launcher", *(name for name, _, _ in _SPANS)]
    width = max(map(len, names))
    lines = [f"{'seconds to the first step':<{width}}" + "".join(f"  {task:>10}" for task in spans)]
    for name in names:
        cells = (f"{of_task[name]:10.2f}" if name in of_task else f"{'-':>10}" for of_task in spans.values())
        lines.append(f"{name:<{width}}" + "".join(f"  {cell}" for cell in cells))
    totals = (sum(of_task.values()) for of_task in spans.values())
    lines.append(f"{'total':<{width}}" + "".join(f"  {total:10.2f}" for total in totals))
    return "\n".join(lines)


def shares_table(run: Run) -> str:
    """Format what the workers' last epoch of training went to; empty if it is not known."""
    lines = [f"{'share of the last epoch':<26}  {'summing':>8}  {'of it waiting':>13}  mostly for"]
    for task, shares in read_shares(run.path).items():
        waited = shares.get("wait_share", 0.0)
        lines.append(
            f"{task:<26}  {shares['sum_share']:>8.0%}  {waited:>13.0%}  {shares.get('waits_for', '')}"
        )
    return "\n".join(lines) if len(lines) > 1 else ""


def _own_start() -> float:
    """Return the start time of this process, in seconds since the epoch."""
    try:
        # psutil adds to the boot time, which Linux reports in whole seconds only.
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError):
        return psutil.Process().create_time()
    return time.time() - age

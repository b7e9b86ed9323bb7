"""Where the time from the command to the first step went, for ``tfmuster launch --timings``."""

from __future__ import annotations

import os
import time
from pathlib import Path

import psutil

from ...runs.run import Run
from ...runs.states import read_events

#: What a task does from one noted phase to the next. A phase may come twice: it starts before and after the
#: rendezvous.
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
    """Seconds of each span, by task; spans that a task has not come to are left out.

    ``launcher`` is the time from the start of this process, the launcher, to the task's.
    """
    launcher = _own_start()
    found: dict[str, dict[str, float]] = {}
    for task, events in read_events(run.path).items():
        times: dict[str, float] = {}
        for event in events:
            times.setdefault(event["phase"], event["time"])
        if "started" not in times:
            continue
        found[task] = {"launcher": times["started"] - launcher}
        for name, first, then in _SPANS:
            if first in times and then in times:
                found[task][name] = times[then] - times[first]
    return found


def timings_table(run: Run) -> str:
    """The timings as lines of text, a column for each task."""
    found = timings(run)
    names = ["launcher", *(name for name, _, _ in _SPANS)]
    width = max(map(len, names))
    lines = [f"{'seconds to the first step':<{width}}" + "".join(f"  {task:>10}" for task in found)]
    for name in names:
        cells = (spans.get(name) for spans in found.values())
        lines.append(
            f"{name:<{width}}"
            + "".join("  " + (f"{c:10.2f}" if c is not None else f"{'-':>10}") for c in cells)
        )
    totals = (sum(spans.values()) for spans in found.values())
    lines.append(f"{'together':<{width}}" + "".join(f"  {total:10.2f}" for total in totals))
    return "\n".join(lines)


def _own_start() -> float:
    """When this process was started, seconds since 1970."""
    try:
        # psutil adds to the time of the boot, which Linux tells in whole seconds.
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError):
        return psutil.Process().create_time()
    return time.time() - age

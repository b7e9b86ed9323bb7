"""Decide from the tasks' reports whether the job stalls, and for which tasks. No sockets and no clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ...system.activity import place_text

#: How long a task may wait in TensorFlow, without moving, for one that has finished its program, in seconds.
GONE_SECONDS: Final = 10.0
#: The same in an execution that the finished task has not entered, or for a variable that both make.
SURE_SECONDS: Final = 2.0
#: How long a task may wait, without moving, for one whose data ended in the execution that both are in.
ENDED_SECONDS: Final = 4.0
#: With more tasks than this, the text of a stall leaves the others out.
_MOST_NAMED: Final = 8


@dataclass
class TaskReport:
    """What the chief knows of a task. Times are seconds of the monotonic clock."""

    task: str
    host: str = ""
    pid: int = 0
    #: Its latest report (:meth:`tfmuster.system.activity.Activity.report`); empty before the first.
    doing: dict[str, Any] = field(default_factory=dict)
    #: When the report came.
    heard: float = 0.0
    #: Since when the task waits in an exchange, if it does, and what the exchange is about.
    asked: float | None = None
    about: str = ""
    #: Whether the task has finished its program.
    done: bool = False

    @property
    def inside(self) -> bool:
        """Whether the task is in TensorFlow, where it may wait for others."""
        return bool(self.doing.get("inside")) and not self.done

    @property
    def executions(self) -> int:
        """Number of executions with a collective operation that the task has entered."""
        return int(self.doing.get("executions", 0))

    def still(self, now: float) -> float:
        """Return for how many seconds the task has not moved, as far as the chief knows."""
        return float(self.doing.get("still", 0.0)) + now - self.heard if self.doing else 0.0

    def waits(self, now: float) -> float:
        """Return for how many seconds the task has been in one exchange or one call of TensorFlow."""
        if self.asked is not None:
            return now - self.asked
        return float(self.doing.get("unchanged", 0.0)) + now - self.heard if self.inside else 0.0

    def text(self) -> str:
        """Describe what the task does."""
        if self.done:
            return "has finished its program"
        if self.asked is not None:
            where = "at" if self.about.startswith("the end") else "at the beginning of"
            return f"{where} {self.about}, waiting for the others"
        return place_text(self.doing) if self.doing else "has not reported what it does"


@dataclass(frozen=True)
class Stall:
    """A job that stalls: the message names the tasks that the others wait for, and what every task does."""

    #: All tasks, if each waits for another.
    awaited: tuple[TaskReport, ...]
    message: str


def find_stall(reports: Mapping[str, TaskReport], limit: float, now: float) -> Stall | None:
    """Return the stall of a job, if it has lasted for `limit` seconds; ``inf`` allows any length.

    A task that has finished its program can't come any more, so waiting for it is a stall at once.
    """
    all_reports = list(reports.values())
    if not all(report.doing or report.done for report in all_reports):
        return None
    if (gone := _waits_for_finished(all_reports, now) or _waits_for_data(all_reports, now)) is not None:
        return gone
    waiting = [report for report in all_reports if report.waits(now) >= limit]
    if not waiting:
        return None
    busy = [r for r in all_reports if not r.done and not r.inside and r.asked is None]
    # One that moves is slow and not stalled, and the others may wait for it and not for the one that rests.
    behind = [report for report in busy if report.still(now) >= limit]
    if behind:
        return _stall(behind, waiting, all_reports, now)
    if busy or any(report.still(now) < limit for report in all_reports if not report.done):
        return None
    # They wait for each other, also if some have begun a moment later.
    waiting = [report for report in all_reports if not report.done]
    ended = [report for report in waiting if report.doing.get("ended") is not None]
    least = min(report.executions for report in waiting)
    few = [report for report in waiting if report.executions == least]
    finished = [report for report in all_reports if report.done]
    alike = finished or waiting
    awaited = ended if 0 < len(ended) < len(waiting) else few if len(few) < len(waiting) else alike
    return _stall(awaited, waiting, all_reports, now)


def _waits_for_finished(reports: Sequence[TaskReport], now: float) -> Stall | None:
    finished = [report for report in reports if report.done]
    for report in reports:
        if not finished or not report.inside:
            continue
        earlier = [other for other in finished if other.executions < report.executions]
        # An execution that others have finished, too, may just take longer here.
        if earlier and report.doing.get("call") and report.waits(now) >= SURE_SECONDS:
            return _stall(earlier, [report], reports, now)
        # TensorFlow would fail after ten seconds with an error that does not name the cause.
        limit = SURE_SECONDS if "making" in report.doing else GONE_SECONDS
        if min(report.still(now), report.waits(now)) >= limit:
            return _stall(finished, [report], reports, now)
    return None


def _waits_for_data(reports: Sequence[TaskReport], now: float) -> Stall | None:
    """Return the stall of tasks in a step for which other tasks have no data.

    The workers take each step together, so data that end everywhere end at nearly the same time.
    """
    ended = [r for r in reports if r.inside and "ended" in r.doing and r.waits(now) >= ENDED_SECONDS]
    waiting = [
        report
        for report in reports
        if ended and report.inside and "ended" not in report.doing
        if report.executions == ended[0].executions and report.still(now) >= ENDED_SECONDS
    ]
    return _stall(ended, waiting, reports, now) if waiting else None


def cannot_come(absent: TaskReport, waiting: Sequence[TaskReport]) -> bool:
    """Return whether a task can't come to an exchange in which others wait.

    It has finished, or it waits for them in an execution that they have not entered.
    """
    return absent.done or (absent.inside and any(absent.executions > report.executions for report in waiting))


def _stall(
    awaited: Sequence[TaskReport], waiting: Sequence[TaskReport], reports: Sequence[TaskReport], now: float
) -> Stall:
    seconds = max(report.waits(now) for report in waiting)
    names = _names(awaited)
    if all(report.done for report in awaited):
        headline = f"stalled: {_names(waiting)} still needs {names}, which finished its program."
    elif len(awaited) == len(reports):
        headline = f"stalled: all workers have waited for each other for {seconds:.0f} s."
    else:
        others = [report for report in waiting if report not in awaited] or waiting
        why = ", whose data ended earlier" if all("ended" in r.doing for r in awaited) else ""
        headline = f"stalled: {_names(others)} waited {seconds:.0f} s for {names}{why}."
    lines = [f"  {report.task} (host {report.host}, pid {report.pid}): {report.text()}" for report in reports]
    if len(lines) > _MOST_NAMED:
        shown = {report.task for report in [*awaited[:4], *waiting[:4]]}
        lines = [line for line, report in zip(lines, reports, strict=True) if report.task in shown]
    return Stall(tuple(awaited), "\n".join([headline, *lines]))


def _names(reports: Sequence[TaskReport]) -> str:
    names = [report.task for report in reports]
    if len(names) > _MOST_NAMED:
        return f"{', '.join(names[:_MOST_NAMED])} and {len(names) - _MOST_NAMED} more"
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)

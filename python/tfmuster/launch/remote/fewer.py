"""Restart a job with fewer hosts, if some are lost and do not come back."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, TypeVar

from ...errors import LaunchError
from ...system.say import say
from ..job import Job
from ..supervise.restarts import Attempt

#: What is found of a host that may be lost, and not only wrongly set up.
_LOST: Final = ("unreachable", "no-sshd", "name-unknown", "busy", "no-agent")
_PAUSE_SECONDS: Final = 1.0

_Result = TypeVar("_Result")


class Named(Protocol):
    """A host."""

    @property
    def name(self) -> str:
        """Its name."""


#: Type, index and host of a task.
Task = tuple[str, int, Any]


class Fewer:
    """Chooses the tasks of each attempt of a job.

    Parameters
    ----------
    least : int or None
        With fewer workers the job ends. None keeps all.
    seconds : float
        How long a lost host may take to come back.
    """

    def __init__(self, least: int | None, seconds: float) -> None:
        self._least = least
        self._seconds = seconds
        #: Hosts that an earlier attempt has left out.
        self._gone: set[str] = set()

    def check(self, job: Job) -> None:
        """Raise LaunchError if the numbers of a job don't fit."""
        if self._least is None:
            return
        wrong = None
        if not 1 <= self._least <= job.workers:
            wrong = f"min_workers={self._least} and {job.workers} workers"
        elif not job.max_restarts:
            wrong = f"min_workers={self._least} without max_restarts"
        elif job.ps or job.chief or job.evaluator:
            wrong = "min_workers with a chief, an evaluator or parameter servers"
        if wrong is not None:
            raise LaunchError(
                "min_workers is for jobs that have only workers, and that may be restarted.",
                found=wrong,
                fix="Choose min_workers from 1 to the number of workers, and add max_restarts.",
                reason="min-workers",
            )

    def start(
        self, tasks: Sequence[Task], attempt: Attempt, run: Callable[[Sequence[Task]], _Result]
    ) -> _Result:
        """Run an attempt with all tasks or, if hosts of a restart do not come back, with the others.

        Raises
        ------
        LaunchError
            A host can't take part, or too few workers are left (reason ``min-workers``).
        """
        until = time.monotonic() + self._seconds
        while True:
            try:
                result = run(tasks)
            except LaunchError as error:
                lost = _lost_hosts(error)
                if self._least is None or not attempt.number or not lost:
                    raise
                if lost <= self._gone or time.monotonic() >= until:
                    return run(self._others(tasks, lost, error))
                time.sleep(_PAUSE_SECONDS)
            else:
                self._gone.clear()
                return result

    def _others(self, tasks: Sequence[Task], lost: set[str], error: LaunchError) -> list[Task]:
        left = [task for task in tasks if task[2].name not in lost]
        names = ", ".join(sorted(lost))
        assert self._least is not None
        if len(left) < self._least:
            raise LaunchError(
                "Too few workers are left.",
                found=f"{len(left)} of {len(tasks)}; {self._least} are needed (min_workers); lost: {names}",
                fix="Launch the job with other hosts and the same run directory. It resumes from its newest "
                "checkpoint.",
                reason="min-workers",
            ) from error
        self._gone = lost
        say(f"tfmuster: {names} lost; the job continues with {len(left)} of {len(tasks)} workers")
        return [(kind, index, host) for index, (kind, _, host) in enumerate(left)]


def _lost_hosts(error: LaunchError) -> set[str]:
    """Return the hosts that an error of hosts says are lost; none if others can't take part either."""
    findings = error.fields.get("findings") or []
    if any(finding["code"] not in _LOST for finding in findings):
        return set()
    return {str(finding["host"]) for finding in findings}

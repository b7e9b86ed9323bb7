"""Run a job by LSF, that is IBM Spectrum LSF or OpenLava: ``bsub`` submits it, ``blaunch`` starts the agents.

Commands and variables are those of IBM's LSF command reference, version 10.1.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from ...cluster.resolvers import lsf as resolver
from ...errors import LaunchError, TfmusterError
from ...options import table
from ...options.hints import Hint
from ...runs.failure import Failure
from ...runs.run import Run
from ..job import Job
from ..remote.gather import AgentRequest, run_placed
from .agent_command import CommandPerAgent
from .base import UnavailableError, answer_of, find_program
from .batch import BatchEngine, BatchRequest
from .batch_follow import JobState, Phase

#: ``bkill`` asks all processes of a job to end, the launcher among them: only that one does as asked.
_FOR_THE_LAUNCHER = ("INT", "TERM")
_NAME_LENGTH = 128
_OVER, _WAITING = ("DONE", "EXIT"), ("PEND", "PSUSP", "WAIT")
_ENDINGS = re.compile(r"TERM_[A-Z_]+: [^.;]*|Exited with exit code [0-9]+|Exited by signal [0-9]+")


@dataclass(frozen=True)
class Lsf(BatchEngine):
    """Has LSF run a job."""

    NAME, TITLE = "lsf", "LSF"
    COMMANDS = ("bsub", "bjobs", "bkill")
    SUBMIT, CANCEL = ("bsub",), "bkill"
    CHECK = "`bqueues` shows its queues."
    CHOOSING_HOSTS = Hint("backend_options", '-m "node1 node2"', "lsf")
    batch_job = staticmethod(resolver.batch_job)

    def slots_inside(self, environ: Mapping[str, str]) -> int | None:
        """The slots of the job."""
        return len(resolver.slot_hosts(environ))

    def directives(self, request: BatchRequest) -> list[str]:
        """See :class:`.batch.BatchEngine`. LSF passes on the environment by itself."""
        lines = [f"-J {request.safe_name(_NAME_LENGTH)}", f"-n {request.tasks}", "-rn"]
        if request.log is not None:
            # LSF would send it by mail; the script writes where it belongs.
            lines.append("-o /dev/null")
        if request.gpus_per_task:
            lines.append(f'-gpu "num={request.gpus_per_task}/task"')
        return [f"#BSUB {line}" for line in (*lines, *self.where.backend_options)]

    def number_of(self, answer: str) -> str | None:
        """See :class:`.batch.BatchEngine`."""
        found = re.search(r"Job <([0-9]+)> is submitted", answer)
        return found[1] if found else None

    def state(self, number: str) -> JobState:
        """See :class:`.batch.BatchEngine`."""
        answer = self.ask("bjobs", "-w", number)
        if answer is None:
            return JobState(Phase.UNKNOWN)
        if "is not found" in answer.output + answer.errors:
            return JobState(Phase.OVER)
        rows = [line.split() for line in answer.output.splitlines()]
        words = next((row[2] for row in rows if len(row) > 2 and row[0] == number), None)
        if answer.code or words is None:
            return JobState(Phase.UNKNOWN)
        if words in _OVER:
            return JobState(Phase.OVER)
        if words not in _WAITING:
            return JobState(Phase.RUNNING)
        reasons = self.ask("bjobs", "-p", number)
        # They follow the row of the job, each ends with a semicolon.
        said = reasons.output.splitlines() if reasons else []
        return JobState(Phase.WAITING, next((s.strip(" ;") for s in said if s.rstrip().endswith(";")), ""))

    def ending(self, number: str, host: str) -> str:
        """Why LSF has ended it, or its exit code."""
        answer = self.ask("bjobs", "-l", number)
        # LSF breaks its lines anywhere, and indents what follows.
        text = re.sub(r"\n {10,}", "", answer.output) if answer else ""
        return ", ".join(dict.fromkeys(found[0].strip() for found in _ENDINGS.finditer(text)))

    def run_inside(self, job: Job, *, show: str, tell: bool) -> tuple[Run, Failure | None]:
        """See :class:`.batch.BatchEngine`."""
        return run_placed(job, self, show=show, tell=tell)

    def start(self, request: AgentRequest) -> CommandPerAgent:
        """Have an agent started on each slot."""
        return self.agents_on_slots(
            request,
            resolver.slot_hosts(os.environ),
            (self.program("blaunch"),),
            more="Ask bsub for more (-n)",
            explain=partial(_explain, request.count),
            ignored=_FOR_THE_LAUNCHER,
        )


def of(where: table.Lsf) -> Lsf:
    """What LSF is to do. Raises LaunchError if something has no meaning for it."""
    return Lsf(where)


def available(seconds: float) -> str:
    """Which LSF it is, if its daemon answers."""
    for name in (*Lsf.COMMANDS, "blaunch"):
        find_program(name, "on a machine of an LSF cluster")
    answer = answer_of("lsid", seconds=seconds)
    if answer.code:
        raise UnavailableError(f"bsub is here, but no daemon answers ({answer.first_line})")
    return answer.first_line


def _explain(count: int, text: str, lines: str) -> TfmusterError:
    """Why blaunch has not started all agents."""
    return LaunchError(
        f"LSF must start {count} processes.",
        found=lines,
        fix="See that `blaunch HOST hostname` works in a job, with a host of its $LSB_HOSTS.",
        reason="batch",
    )

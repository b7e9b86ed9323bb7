"""Run a job by LSF, that is IBM Spectrum LSF or OpenLava: ``bsub`` submits it, ``blaunch`` starts the agents.

Commands and variables are those of IBM's LSF command reference, version 10.1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...cluster.resolvers.batch import LSF
from ...options.hints import Hint
from ...system.ask import NoAnswerError, ask
from ..job import Job
from .batch import BatchEngine
from .batch_commands import Phase, phases

_ENDINGS = re.compile(r"TERM_[A-Z_]+: [^.;]*|Exited with exit code [0-9]+|Exited by signal [0-9]+")


@dataclass(frozen=True)
class Lsf(BatchEngine):
    """Has LSF run a job. It passes on the environment by itself."""

    SYSTEM = LSF
    SUBMIT, NUMBER = ("bsub",), r"Job <([0-9]+)> is submitted"
    STATE, GONE = ("bjobs", "-w"), "is not found"
    PHASES = phases(waiting="PEND PSUSP WAIT", over="DONE EXIT", unknown="none")
    INSTALL, SERVER = "on a machine of an LSF cluster", "daemon"
    CHECK = "`bqueues` shows its queues."
    CHOOSING_HOSTS = Hint("backend_options", '-m "node1 node2"', "lsf")
    MARK, NAMED, OPTIONS, ARRAY = "#BSUB", ("-J", 128), ("-rn",), r"-J\s*[\"']?[^\s\[]*\["
    REMOTE_SHELL, MORE_SLOTS = ("blaunch",), "Ask bsub for more (-n)"
    #: ``bkill`` asks all processes of a job to end, the launcher among them: only that one does as asked.
    IGNORED = ("INT", "TERM")

    def machines(self, job: Job) -> list[str]:
        """See :class:`.batch.BatchEngine`."""
        gpus = [f'-gpu "num={job.gpus_per_worker}/task"'] if job.gpus_per_worker else []
        return [f"-n {len(job.kinds)}", *gpus, *self.where.backend_options]

    def word_for(self, number: str, text: str) -> tuple[str, str]:
        """See :class:`.batch_commands.BatchCommands`. Another question tells why a job waits."""
        rows = [line.split() for line in text.splitlines()]
        word = next((row[2] for row in rows if len(row) > 2 and row[0] == number), "none")
        reasons = self.ask("bjobs", "-p", number) if self.PHASES.get(word) is Phase.WAITING else None
        # They follow the row of the job, each ends with a semicolon.
        lines = reasons.output.splitlines() if reasons else []
        return word, next((line.strip(" ;") for line in lines if line.rstrip().endswith(";")), "")

    def ending(self, number: str, host: str) -> str:
        """Return why LSF has ended the job, or its exit code."""
        answer = self.ask("bjobs", "-l", number)
        # LSF breaks its lines anywhere, and indents what follows.
        text = re.sub(r"\n {10,}", "", answer.output) if answer else ""
        return ", ".join(dict.fromkeys(match[0].strip() for match in _ENDINGS.finditer(text)))

    def version(self, seconds: float) -> str:
        """See :class:`.batch_commands.BatchCommands`."""
        answer = ask("lsid", seconds=seconds)
        if answer.code:
            raise NoAnswerError(answer.first_line)
        return answer.first_line


make_engine, available = Lsf, Lsf().available

"""Run a job by PBS, that is by OpenPBS, PBS Professional or Torque: ``qsub`` submits it.

Inside a job, ssh starts the workers on the hosts of ``$PBS_NODEFILE`` (:mod:`.ssh`): ``pbsdsh`` has no way to
hand over the job's secret that others can't see. Commands and variables are those of qsub(1B) and qstat(1B).
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass

from ...cluster.resolvers.batch import PBS
from ...environment import PREFIX
from ...options import places
from ...options.hints import Hint
from ...system.ask import Answer, NoAnswerError, ask
from ...tracking.failure.failure import Failure
from ...tracking.run import Run
from ...words import Words
from ..job import Job
from .base import UnavailableError
from .batch import BatchEngine
from .batch_commands import SUBMIT_SECONDS, phases
from .hosts import Host
from .ssh import Ssh

_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
#: Variables of a host, a login or a process.
_OF_ONE_HOST = frozenset(
    ("HOME", "HOSTNAME", "LOGNAME", "OLDPWD", "PWD", "SHELL", "SHLVL", "TERM", "TMP", "TMPDIR", "USER", "_")
)
_OF_ONE_PROCESS = ("PBS_", "SLURM", "SSH_", PREFIX, "TF_CONFIG", "CUDA_VISIBLE", "XDG_", "DBUS_")
_ASKS_FOR_HOSTS = re.compile(r"(?:^|\s)-l\s*(?:\S*,)?(?:select|nodes|procs|ncpus)=")
_LINES = re.compile(r"^\s+([A-Za-z_]+)[ \t]*=[ \t]*(.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Pbs(BatchEngine):
    """Has PBS run a job."""

    SYSTEM = PBS
    SUBMIT, NUMBER = ("qsub", "-V"), r"(?:^|\s)([0-9]+(?:\[\])?(?:\.[\w.-]+)?)\s*$"
    STATE = ("qstat", "-f")
    #: There is no such job, or no longer.
    GONE, GONE_CODES = "Unknown Job", (153, 35)
    PHASES = phases(waiting="Q H T W", over="C F X")
    INSTALL, SERVER = "on a machine of a PBS cluster", "server"
    CHECK = "`qstat -q` shows its queues."
    CHOOSING_HOSTS = Hint("backend_options", "-l select=1:host=node1+1:host=node2", "pbs")
    #: The longest name of a job that all of its relatives take has 15 characters.
    MARK, NAMED, OPTIONS = "#PBS", ("-N", 15), ("-r n", "-j oe")
    #: Of OpenPBS, and of Torque.
    ARRAY = r"-[Jt]\s"

    def machines(self, job: Job) -> list[str]:
        """See :class:`.batch.BatchEngine`. A core for each task, in the words of OpenPBS or of Torque."""
        options = self.where.backend_options
        if any(_ASKS_FOR_HOSTS.search(option) for option in options):
            return list(options)
        answer = self.ask("qstat", "--version")
        count, gpus = len(job.kinds), job.gpus_per_worker
        if answer and "pbs_version" in answer.output + answer.errors:
            asked = f"select={count}:ncpus=1:mpiprocs=1" + (f":ngpus={gpus}" if gpus else "")
        else:
            asked = f"nodes={count}:ppn=1" + (f":gpus={gpus}" if gpus else "")
        return [f"-l {asked}", *options]

    def answer_to(self, script: str, env: Mapping[str, str]) -> Answer:
        """See :class:`.batch_commands.BatchCommands`. Some of its relatives read no standard input."""
        with tempfile.NamedTemporaryFile("w", prefix="tfmuster-", suffix=".sh") as file:
            file.write(script)
            file.flush()
            name, *options = self.SUBMIT
            return ask(self.program(name), *options, file.name, seconds=SUBMIT_SECONDS, env=env)

    def word_for(self, number: str, text: str) -> tuple[str, str]:
        """See :class:`.batch_commands.BatchCommands`."""
        known = _attributes(text)
        word = known.get("job_state", "C")[:1]
        return word, known.get("comment", "it is held" if word == "H" else "")

    def ending(self, number: str, host: str) -> str:
        """Return the exit status, and PBS's comment."""
        # Only PBS Professional and OpenPBS have a history, and an option that asks for it.
        for options in (("-x", "-f"), ("-f",)):
            answer = self.ask("qstat", *options, number)
            known = _attributes(answer.output) if answer and not answer.code else {}
            status = known.get("Exit_status", known.get("exit_status"))
            if status is not None:
                return ", ".join(filter(None, (f"exit status {status}", known.get("comment"))))
        return ""

    def run_inside(self, job: Job, *, show: str, tell: bool) -> tuple[Run, Failure | None]:
        """See :class:`.batch.BatchEngine`."""
        lines = self.slot_hosts()
        hosts = [Host(name, lines.count(name)) for name in dict.fromkeys(lines)]
        # An ssh login has none of what `qsub -V` and the modules of the batch script have set.
        job = job.changed(env={**_exported(os.environ), **job.env})
        where = places.Ssh(**{name: getattr(self.where, name) for name in places.Elsewhere.ROWS})
        return Ssh(where, hosts).run(job, show=show, tell=tell)

    def version(self, seconds: float) -> str:
        """See :class:`.batch_commands.BatchCommands`."""
        version = ask("qstat", "--version", seconds=seconds)
        if "GE " in ask("qstat", "-help", seconds=seconds).output:
            raise UnavailableError(
                Words("qsub is here, and it is Grid Engine's ({})", Hint("backend", "sge"))
            )
        answer = ask("qstat", "-q", seconds=seconds)
        if answer.code not in (0, *self.GONE_CODES):
            raise NoAnswerError(answer.first_line)
        match = re.search(r"(pbs_version = \S+|Version: \S+)", f"{version.output}\n{version.errors}")
        return match[0] if match else "qsub"


make_engine, available = Pbs, Pbs().available


def _exported(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that mean the same on every host of a job."""
    return {
        name: value
        for name, value in environ.items()
        if _NAME.fullmatch(name) and name not in _OF_ONE_HOST and not name.startswith(_OF_ONE_PROCESS)
        # What is no text can't be sent.
        if value.isprintable() or value.isascii()
    }


def _attributes(text: str) -> dict[str, str]:
    """Return what ``qstat -f`` says of a job; a line that begins with a tab continues the one before."""
    return dict(_LINES.findall(re.sub(r"\n\t(?![A-Za-z_.]+ = )", "", text)))

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

from ...cluster.resolvers import pbs as resolver
from ...environment import PREFIX
from ...options import table
from ...options.hints import Hint
from ...runs.failure import Failure
from ...runs.run import Run
from ...system.ask import Answer, ask
from ...words import Words
from ..job import Job
from .base import UnavailableError, answer_of, find_program
from .batch import BatchEngine, BatchRequest
from .batch_follow import JobState, Phase
from .hosts import Host
from .ssh import Ssh

_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
#: Variables of a host, a login or a process.
_OF_ONE_HOST = (
    "HOME",
    "HOSTNAME",
    "LOGNAME",
    "OLDPWD",
    "PWD",
    "SHELL",
    "SHLVL",
    "TERM",
    "TMP",
    "TMPDIR",
    "USER",
    "_",
)
_OF_ONE_PROCESS = ("PBS_", "SLURM", "SSH_", PREFIX, "TF_CONFIG", "CUDA_VISIBLE", "XDG_", "DBUS_")
#: The longest name of a job that all of them take.
_NAME_LENGTH = 15
#: Exit codes of qstat: there is no such job, or no longer.
_GONE = (153, 35)
_OVER, _WAITING = "CFX", "QHTW"
_ASKS_FOR_HOSTS = re.compile(r"(?:^|\s)-l\s*(?:\S*,)?(?:select|nodes|procs|ncpus)=")
_LINES = re.compile(r"^\s+([A-Za-z_]+)[ \t]*=[ \t]*(.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Pbs(BatchEngine):
    """Has PBS run a job."""

    NAME, TITLE = "pbs", "PBS"
    COMMANDS = ("qsub", "qstat", "qdel")
    SUBMIT, CANCEL = ("qsub", "-V"), "qdel"
    CHECK = "`qstat -q` shows its queues."
    CHOOSING_HOSTS = Hint("backend_options", "-l select=1:host=node1+1:host=node2", "pbs")
    batch_job = staticmethod(resolver.batch_job)

    def slots_inside(self, environ: Mapping[str, str]) -> int | None:
        """The lines of ``$PBS_NODEFILE``."""
        return len(resolver.slot_hosts(environ))

    def directives(self, request: BatchRequest) -> list[str]:
        """See :class:`.batch.BatchEngine`."""
        options = self.where.backend_options
        lines = [f"-N {request.safe_name(_NAME_LENGTH)}", "-r n", "-j oe"]
        if request.log is not None:
            # A colon in a path has a meaning for qsub: the script writes there itself.
            lines.append("-o /dev/null")
        if not any(_ASKS_FOR_HOSTS.search(option) for option in options):
            lines.append(f"-l {_resources(request)}")
        return [f"#PBS {line}" for line in (*lines, *options)]

    def submit_script(self, script: str, env: Mapping[str, str], seconds: float) -> Answer:
        """See :class:`.batch.BatchEngine`. Some of its relatives read no standard input."""
        with tempfile.NamedTemporaryFile("w", prefix="tfmuster-", suffix=".sh") as file:
            file.write(script)
            file.flush()
            name, *options = self.SUBMIT
            return ask(self.program(name), *options, file.name, seconds=seconds, env=env)

    def number_of(self, answer: str) -> str | None:
        """See :class:`.batch.BatchEngine`."""
        words = answer.split()
        return words[-1] if words and re.fullmatch(r"[0-9]+(\[\])?(\.[\w.-]+)?", words[-1]) else None

    def state(self, number: str) -> JobState:
        """See :class:`.batch.BatchEngine`."""
        answer = self.ask("qstat", "-f", number)
        if answer is None or (answer.code and answer.code not in _GONE):
            return JobState(Phase.UNKNOWN)
        known = _attributes(answer.output)
        word = known.get("job_state", "")[:1]
        if answer.code or not word or word in _OVER:
            return JobState(Phase.OVER)
        if word in _WAITING:
            held = "it is held" if word == "H" else ""
            return JobState(Phase.WAITING, known.get("comment", held))
        return JobState(Phase.RUNNING)

    def ending(self, number: str, host: str) -> str:
        """The exit status, and PBS's comment."""
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
        lines = resolver.slot_hosts(os.environ)
        hosts = [Host(name, lines.count(name)) for name in dict.fromkeys(lines)]
        # An ssh login has none of what `qsub -V` and the modules of the batch script have set.
        whole = job.changed(env={**_exported(os.environ), **job.env})
        where = table.Ssh(**{name: getattr(self.where, name) for name in table.Elsewhere.ROWS})
        return Ssh(where, hosts).run(whole, show=show, tell=tell)


def of(where: table.Pbs) -> Pbs:
    """What PBS is to do. Raises LaunchError if something has no meaning for it."""
    return Pbs(where)


def available(seconds: float) -> str:
    """Which PBS it is, if its server answers."""
    for name in Pbs.COMMANDS:
        find_program(name, "on a machine of a PBS cluster")
    version = answer_of("qstat", "--version", seconds=seconds)
    said = f"{version.output}\n{version.errors}"
    if "GE " in answer_of("qstat", "-help", seconds=seconds).output:
        raise UnavailableError(Words("qsub is here, and it is Grid Engine's ({})", Hint("backend", "sge")))
    answer = answer_of("qstat", "-q", seconds=seconds)
    if answer.code not in (0, *_GONE):
        raise UnavailableError(f"qsub is here, but no server answers ({answer.first_line})")
    found = re.search(r"(pbs_version = \S+|Version: \S+)", said)
    return found[0] if found else "qsub"


def _exported(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that mean the same on every host of a job."""
    return {
        name: value
        for name, value in environ.items()
        if _NAME.fullmatch(name) and name not in _OF_ONE_HOST and not name.startswith(_OF_ONE_PROCESS)
        # What is no text can't be sent.
        if value.isprintable() or value.isascii()
    }


def _resources(request: BatchRequest) -> str:
    """As many tasks as there are, each with a core: in the words of OpenPBS, or of Torque."""
    answer = Pbs.ask("qstat", "--version")
    count, gpus = request.tasks, request.gpus_per_task
    if answer and "pbs_version" in answer.output + answer.errors:
        return f"select={count}:ncpus=1:mpiprocs=1" + (f":ngpus={gpus}" if gpus else "")
    return f"nodes={count}:ppn=1" + (f":gpus={gpus}" if gpus else "")


def _attributes(text: str) -> dict[str, str]:
    """What ``qstat -f`` says of a job; a line that begins with a tab continues the one before."""
    return dict(_LINES.findall(re.sub(r"\n\t(?![A-Za-z_.]+ = )", "", text)))

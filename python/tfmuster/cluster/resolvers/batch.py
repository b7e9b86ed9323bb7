"""Find the task of a process that Grid Engine, PBS or LSF has started, from the variables that they set.

The slots of a job are those of its host file, in the same order. ``mpirun`` tells more (:mod:`.mpi`). Other
resolvers also use what these share: a job, its ports, the share of a host's GPUs.
"""

from __future__ import annotations

import abc
import itertools
import os
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ...errors import LaunchError
from ...options.hints import Hint, Launch
from ...system.gpus import VISIBLE, visible_gpus
from ...words import Words
from ..spec import Cluster, Task

#: The first of the ports that jobs get by their numbers, the number of blocks, and ports per block. All lie
#: below the ports that Linux uses for outgoing connections.
FIRST_PORT = 20_000
_BLOCKS, _BLOCK = 192, 64
#: More slots than any job has. A number in a host file must not fill the memory.
_MOST_SLOTS = 100_000

_SGE_SPOOL = "SGE_JOB_SPOOL_DIR"
#: Grid Engine numbers the tasks of each host in the name of their spool directory.
_SGE_TASK = re.compile(r".*/[0-9]+\.[0-9]+/([1-9][0-9]{0,6})\.([^/]+)/?", re.ASCII)
#: The task of PBS that is the batch script itself.
_PBS_FIRST_TASK = "1"
_LSF_FILE, _LSF_COUNTS, _LSF_NAMES = "LSB_DJOB_HOSTFILE", "LSB_MCPU_HOSTS", "LSB_HOSTS"
#: The number of a task of LSF, from 1 on.
_LSF_TASK = "LSF_PM_TASKID"


@dataclass(frozen=True)
class BatchJob:
    """A job of a batch system: the name of the backend, such as ``slurm``, and its identifier there."""

    system: str
    number: str
    #: The command that ends the job, from any machine of the cluster.
    stop: tuple[str, ...]


class BatchSystem:
    """A batch system, and the job of a process in it."""

    #: The name of ``--backend``, and the name in texts.
    BACKEND: ClassVar[str]
    NAME: ClassVar[str]
    #: The variable with the job's number, and the command that ends a job.
    JOB: ClassVar[str]
    STOP: ClassVar[str]

    def batch_job(self, environ: Mapping[str, str]) -> BatchJob | None:
        """Return the job that this process belongs to, even if the process is not a task."""
        number = environ.get(self.JOB)
        return BatchJob(self.BACKEND, number, (self.STOP, number)) if number else None


class SlotSystem(BatchSystem, abc.ABC):
    """A batch system that gives a job slots on hosts; worker i has slot i."""

    #: The variables that list the job's hosts, or name a file that does.
    HOSTS: ClassVar[tuple[str, ...]]
    #: How to start tasks whose variables say where they run.
    START: ClassVar[str] = "Start the tasks with mpirun"

    @abc.abstractmethod
    def is_here(self, environ: Mapping[str, str]) -> bool:
        """Tell whether the batch system has started this process as a task. A batch script is not a task."""

    @abc.abstractmethod
    def hosts(self, environ: Mapping[str, str]) -> list[str]:
        """Return the host of each slot. At least one of the variables is set."""

    @abc.abstractmethod
    def rank(self, environ: Mapping[str, str], hosts: Sequence[str]) -> int:
        """Return the number of this task's slot, from 0. Raises LaunchError if the variables don't say it."""

    def resolve(self, environ: Mapping[str, str], base_port: int | None) -> Task:
        """Find the task of this process in a cluster with one worker for each slot. Raises LaunchError.

        By default, the base port depends on the job, so that jobs on one host use different ports.
        """
        if not self._has_hosts(environ):
            raise self.not_understood(f"no {' or '.join(self.HOSTS)}")
        hosts = self.slot_hosts(environ)
        if base_port is None:
            number = re.match("[0-9]{1,18}", environ[self.JOB], re.ASCII)
            base_port = port_of_job(7 * int(number[0]) if number else 0)
        addresses = [f"{host}:{base_port + hosts[:at].count(host)}" for at, host in enumerate(hosts)]
        return Cluster(worker=addresses).task("worker", self.rank(environ, hosts))

    def gpus(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return a task's share of its host's GPUs, if all tasks of the host see the same GPUs."""
        hosts = self.slot_hosts(environ)
        rank = self.rank(environ, hosts)
        visible = visible_gpus({VISIBLE: environ.get(VISIBLE, "")})
        return share_of_gpus(visible, hosts.count(hosts[rank]), hosts[:rank].count(hosts[rank]))

    def slot_hosts(self, environ: Mapping[str, str]) -> list[str]:
        """Return the host of each slot; only this host if the batch system lists none. Raises LaunchError."""
        if not self._has_hosts(environ):
            return [socket.gethostname()]
        hosts = self.hosts(environ)
        if not hosts:
            raise self.not_understood(f"{' and '.join(filter(environ.get, self.HOSTS))} is empty")
        return hosts

    def not_understood(self, found: str) -> LaunchError:
        """Make the error for variables and files that don't say where the tasks run."""
        return LaunchError(
            f"{self.NAME}'s variables must say on which slot of its job each task runs.",
            found=found,
            fix=Words(
                f"{self.START}, or let `{{}}` start them.",
                Launch((Hint("backend", self.BACKEND),), script=None),
            ),
            reason="batch",
        )

    def repeated(self, counts: Sequence[tuple[str, str]], where: str) -> list[str]:
        """Return each host as often as the text beside it says. Raises LaunchError if that is no count."""
        hosts: list[str] = []
        for host, count in counts:
            if (slots := whole_number(count, _MOST_SLOTS - len(hosts), least=1)) is None:
                raise self.not_understood(f"{where} has the entry {f'{host} {count}'.rstrip()[:200]!r}")
            hosts += [host] * slots
        return hosts

    def _has_hosts(self, environ: Mapping[str, str]) -> bool:
        return any(environ.get(name) for name in self.HOSTS)


def port_of_job(number: int) -> int:
    """Return the first port of a job's tasks on each host. Successive jobs get different ports."""
    return FIRST_PORT + number % _BLOCKS * _BLOCK


def share_of_gpus(gpus: Sequence[str], tasks: int, local: int) -> dict[str, str]:
    """Return the share of task number `local` of a host's GPUs; nothing for one task, or too few GPUs."""
    if tasks < 2 or len(gpus) < tasks:
        return {}
    share = len(gpus) // tasks
    return {VISIBLE: ",".join(gpus[share * local : share * (local + 1)])}


def whole_number(text: str, most: int, *, least: int = 0) -> int | None:
    """Read a number of plain digits; return None for any other text, and for a number out of range."""
    digits = text.isascii() and text.isdigit() and len(text) <= len(str(most))
    return int(text) if digits and least <= int(text) <= most else None


def read_host_file(environ: Mapping[str, str], variable: str) -> list[list[str]]:
    """Read the words of each line of the file that lists the hosts of a job.

    Raises LaunchError if it can't be read, for example because only the job's first host has it.
    """
    try:
        text = Path(environ[variable]).read_text()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not a text file"
        raise LaunchError(
            "Every task must be able to read the list of the job's hosts.",
            found=f"{variable}={environ[variable]}: {why}",
            fix=f"Copy it to a directory that all hosts have, and set {variable} to the copy.",
            reason="hosts",
        ) from error
    return [words for line in text.splitlines() if (words := line.split())]


class GridEngine(SlotSystem):
    """Sun Grid Engine and its descendants: ``qrsh -inherit`` starts tasks in a parallel environment."""

    BACKEND, NAME = "sge", "Grid Engine"
    JOB, STOP = "JOB_ID", "qdel"
    HOSTS = ("PE_HOSTFILE",)
    START = "Start one task on each slot with `qrsh -inherit -V`, in a job that qsub -pe has started"

    def is_here(self, environ: Mapping[str, str]) -> bool:
        return self.JOB in environ and _SGE_TASK.fullmatch(environ.get(_SGE_SPOOL, "")) is not None

    def batch_job(self, environ: Mapping[str, str]) -> BatchJob | None:
        # Other programs also use the variable JOB_ID.
        job = super().batch_job(environ) if _SGE_SPOOL in environ else None
        # Each task of an array job is a separate job. In other jobs the variable is "undefined".
        task = environ.get("SGE_TASK_ID", "")
        if job is None or not task.isdigit():
            return job
        return BatchJob(job.system, job.number, (*job.stop, "-t", task))

    def hosts(self, environ: Mapping[str, str]) -> list[str]:
        # A line has a host and its number of slots.
        lines = [[*words, ""] for words in read_host_file(environ, self.HOSTS[0])]
        return self.repeated([(words[0], words[1]) for words in lines], self.HOSTS[0])

    def rank(self, environ: Mapping[str, str], hosts: Sequence[str]) -> int:
        task = _SGE_TASK.fullmatch(environ.get(_SGE_SPOOL, ""))
        assert task is not None
        number, name = int(task[1]), task[2]
        # The name of the directory has no domain.
        ranks = [at for at, host in enumerate(hosts) if host.partition(".")[0] == name.partition(".")[0]]
        if len({hosts[at] for at in ranks}) != 1:
            raise self.not_understood(f"{name} is not among {', '.join(dict.fromkeys(hosts))}")
        if number > len(ranks):
            raise self.not_understood(f"task {number} on {hosts[ranks[0]]}, which has {len(ranks)} slots")
        return ranks[number - 1]


class Pbs(SlotSystem):
    """OpenPBS, PBS Professional and Torque, whose ``pbsdsh`` starts tasks.

    Torque gives each task the number of its line, ``PBS_VNODENUM``. The others give it the number of its
    host, ``PBS_NODENUM``, which is enough if a host has one task.
    """

    BACKEND, NAME = "pbs", "PBS"
    JOB, STOP = "PBS_JOBID", "qdel"
    HOSTS = ("PBS_NODEFILE",)

    def is_here(self, environ: Mapping[str, str]) -> bool:
        if self.JOB not in environ or "PBS_TASKNUM" not in environ:
            return False
        return (environ["PBS_TASKNUM"], environ.get("PBS_NODENUM", "0")) != (_PBS_FIRST_TASK, "0")

    def hosts(self, environ: Mapping[str, str]) -> list[str]:
        # A line is a slot.
        return [words[0] for words in read_host_file(environ, self.HOSTS[0])]

    def rank(self, environ: Mapping[str, str], hosts: Sequence[str]) -> int:
        line, host = environ.get("PBS_VNODENUM", ""), environ.get("PBS_NODENUM", "")
        if (number := whole_number(line, len(hosts) - 1)) is not None:
            return number
        names = list(dict.fromkeys(hosts))
        number = None if line else whole_number(host, len(names) - 1)
        if number is not None and hosts.count(names[number]) == 1:
            return hosts.index(names[number])
        raise self.not_understood(
            f"PBS_VNODENUM={line!r}, PBS_NODENUM={host!r}, {len(hosts)} lines for {', '.join(names)}"
        )


class Lsf(SlotSystem):
    """IBM Spectrum LSF and OpenLava."""

    BACKEND, NAME = "lsf", "LSF"
    JOB, STOP = "LSB_JOBID", "bkill"
    HOSTS = (_LSF_FILE, _LSF_COUNTS, _LSF_NAMES)

    def is_here(self, environ: Mapping[str, str]) -> bool:
        return self.JOB in environ and _LSF_TASK in environ

    def batch_job(self, environ: Mapping[str, str]) -> BatchJob | None:
        job = super().batch_job(environ)
        # An element of an array ends alone. In other jobs the index is 0.
        index = environ.get("LSB_JOBINDEX", "0")
        if job is None or index in ("", "0"):
            return job
        name = f"{job.number}[{index}]"
        return BatchJob(job.system, name, (self.STOP, name))

    def hosts(self, environ: Mapping[str, str]) -> list[str]:
        # A line of the file is a slot.
        # The file is on the disk of the first host, and has all hosts. The variable is everywhere.
        if os.path.isfile(environ.get(_LSF_FILE, "")):
            return [words[0] for words in read_host_file(environ, _LSF_FILE)]
        if words := environ.get(_LSF_COUNTS, "").split():
            pairs = itertools.zip_longest(words[::2], words[1::2], fillvalue="")
            return self.repeated(list(pairs), _LSF_COUNTS)
        return environ.get(_LSF_NAMES, "").split()

    def rank(self, environ: Mapping[str, str], hosts: Sequence[str]) -> int:
        text = environ.get(_LSF_TASK, "")
        if (number := whole_number(text, len(hosts), least=1)) is None:
            raise self.not_understood(f"{_LSF_TASK} is {text!r}, and there are {len(hosts)} slots")
        return number - 1


SGE, PBS, LSF = GridEngine(), Pbs(), Lsf()

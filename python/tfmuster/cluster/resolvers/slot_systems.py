"""Find the task of a process that Grid Engine, PBS or LSF has started, from the variables that they set.

The slots of a job are those of its host file, in the same order. ``mpirun`` tells more (:mod:`.mpi`).
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Mapping, Sequence

from .batch import BatchJob, SlotSystem, read_host_file, whole_number

_SGE_SPOOL = "SGE_JOB_SPOOL_DIR"
#: Grid Engine numbers the tasks of each host in the name of their spool directory.
_SGE_TASK = re.compile(r".*/[0-9]+\.[0-9]+/([1-9][0-9]{0,6})\.([^/]+)/?", re.ASCII)
#: The task of PBS that is the batch script itself.
_PBS_FIRST_TASK = "1"
_LSF_FILE, _LSF_COUNTS, _LSF_NAMES = "LSB_DJOB_HOSTFILE", "LSB_MCPU_HOSTS", "LSB_HOSTS"
#: The number of a task of LSF, from 1 on.
_LSF_TASK = "LSF_PM_TASKID"


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

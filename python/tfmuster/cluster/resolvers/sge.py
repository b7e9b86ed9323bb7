"""Find the task of a process that ``qrsh -inherit`` has started in a parallel environment of Sun Grid Engine.

The slots are those of ``$PE_HOSTFILE`` (sge_pe(5)). Grid Engine numbers the tasks of each host in the name of
their spool directory, ``active_jobs/4711.1/2.node1``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from .batch import BatchJob, SlotSystem, read_host_file

_SPOOL = "SGE_JOB_SPOOL_DIR"
_TASK = re.compile(r".*/[0-9]+\.[0-9]+/([1-9][0-9]{0,6})\.([^/]+)/?", re.ASCII)


class GridEngine(SlotSystem):
    """Sun Grid Engine and its descendants."""

    BACKEND, NAME = "sge", "Grid Engine"
    JOB, STOP = "JOB_ID", "qdel"
    HOSTS = ("PE_HOSTFILE",)
    START = "Start one task on each slot with `qrsh -inherit -V`, in a job that qsub -pe has started"

    def is_here(self, environ: Mapping[str, str]) -> bool:
        """See :class:`.batch.SlotSystem`."""
        return self.JOB in environ and _TASK.fullmatch(environ.get(_SPOOL, "")) is not None

    def batch_job(self, environ: Mapping[str, str]) -> BatchJob | None:
        """See :class:`.batch.SlotSystem`."""
        # Other programs also use the variable JOB_ID.
        job = super().batch_job(environ) if _SPOOL in environ else None
        # Each task of an array job is a separate job. In other jobs the variable is "undefined".
        task = environ.get("SGE_TASK_ID", "")
        if job is None or not task.isdigit():
            return job
        return BatchJob(job.system, job.number, (*job.stop, "-t", task))

    def hosts(self, environ: Mapping[str, str]) -> list[str]:
        """See :class:`.batch.SlotSystem`. A line has a host and its number of slots."""
        lines = [[*words, ""] for words in read_host_file(environ, self.HOSTS[0])]
        return self.repeated([(words[0], words[1]) for words in lines], self.HOSTS[0])

    def rank(self, environ: Mapping[str, str], hosts: Sequence[str]) -> int:
        """See :class:`.batch.SlotSystem`."""
        task = _TASK.fullmatch(environ.get(_SPOOL, ""))
        assert task is not None
        number, name = int(task[1]), task[2]
        # The name of the directory has no domain.
        ranks = [at for at, host in enumerate(hosts) if host.partition(".")[0] == name.partition(".")[0]]
        if len({hosts[at] for at in ranks}) != 1:
            raise self.not_understood(f"{name} is not among {', '.join(dict.fromkeys(hosts))}")
        if number > len(ranks):
            raise self.not_understood(f"task {number} on {hosts[ranks[0]]}, which has {len(ranks)} slots")
        return ranks[number - 1]


SYSTEM = GridEngine()

"""Find the task of a process of a job of LSF (IBM Spectrum LSF, OpenLava), from the variables that LSF sets.

The slots are those of ``$LSB_DJOB_HOSTFILE`` or ``$LSB_MCPU_HOSTS``. ``LSF_PM_TASKID`` is the number of a
task, from 1 on; ``mpirun`` tells more (:mod:`.mpi`).
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence

from .batch import BatchJob, SlotSystem, read_host_file, whole_number

_FILE, _COUNTS, _NAMES = "LSB_DJOB_HOSTFILE", "LSB_MCPU_HOSTS", "LSB_HOSTS"
_TASK = "LSF_PM_TASKID"


class Lsf(SlotSystem):
    """LSF."""

    BACKEND, NAME = "lsf", "LSF"
    JOB, STOP = "LSB_JOBID", "bkill"
    HOSTS = (_FILE, _COUNTS, _NAMES)

    def is_here(self, environ: Mapping[str, str]) -> bool:
        """See :class:`.batch.SlotSystem`."""
        return self.JOB in environ and _TASK in environ

    def batch_job(self, environ: Mapping[str, str]) -> BatchJob | None:
        """See :class:`.batch.SlotSystem`."""
        job = super().batch_job(environ)
        # An element of an array ends alone. In other jobs the index is 0.
        index = environ.get("LSB_JOBINDEX", "0")
        if job is None or index in ("", "0"):
            return job
        name = f"{job.number}[{index}]"
        return BatchJob(job.system, name, (self.STOP, name))

    def hosts(self, environ: Mapping[str, str]) -> list[str]:
        """See :class:`.batch.SlotSystem`. A line of the file is a slot."""
        # The file is on the disk of the first host, and has all hosts. The variable is everywhere.
        if os.path.isfile(environ.get(_FILE, "")):
            return [words[0] for words in read_host_file(environ, _FILE)]
        if words := environ.get(_COUNTS, "").split():
            pairs = itertools.zip_longest(words[::2], words[1::2], fillvalue="")
            return self.repeated(list(pairs), _COUNTS)
        return environ.get(_NAMES, "").split()

    def rank(self, environ: Mapping[str, str], hosts: Sequence[str]) -> int:
        """See :class:`.batch.SlotSystem`."""
        text = environ.get(_TASK, "")
        if (number := whole_number(text, len(hosts), least=1)) is None:
            raise self.not_understood(f"{_TASK} is {text!r}, and there are {len(hosts)} slots")
        return number - 1


SYSTEM = Lsf()

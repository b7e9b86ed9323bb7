"""Find the task of a process that ``pbsdsh`` has started: in OpenPBS, PBS Professional and Torque.

The slots are the lines of ``$PBS_NODEFILE``. Torque gives each task the number of its line, ``PBS_VNODENUM``.
The others give it the number of its host, ``PBS_NODENUM``, which is enough if a host has one task. ``mpirun``
tells more (:mod:`.mpi`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .batch import SlotSystem, read_host_file, whole_number

#: The task that is the batch script itself.
_FIRST_TASK = "1"


class Pbs(SlotSystem):
    """PBS and its relatives."""

    BACKEND, NAME = "pbs", "PBS"
    JOB, STOP = "PBS_JOBID", "qdel"
    HOSTS = ("PBS_NODEFILE",)

    def is_here(self, environ: Mapping[str, str]) -> bool:
        """See :class:`.batch.SlotSystem`."""
        if self.JOB not in environ or "PBS_TASKNUM" not in environ:
            return False
        return (environ["PBS_TASKNUM"], environ.get("PBS_NODENUM", "0")) != (_FIRST_TASK, "0")

    def hosts(self, environ: Mapping[str, str]) -> list[str]:
        """See :class:`.batch.SlotSystem`. A line is a slot."""
        return [words[0] for words in read_host_file(environ, self.HOSTS[0])]

    def rank(self, environ: Mapping[str, str], hosts: Sequence[str]) -> int:
        """See :class:`.batch.SlotSystem`."""
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


SYSTEM = Pbs()

"""A task of a job of LSF (IBM Spectrum LSF, OpenLava), from the variables that LSF gives it.

Slots are the workers' indices, in the order of ``$LSB_DJOB_HOSTFILE`` or ``$LSB_MCPU_HOSTS``.
``LSF_PM_TASKID`` is the number of a task from 1 on; ``mpirun`` tells more (:mod:`.mpi`).
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping

from ...errors import LaunchError
from ...options.hints import Hint, Launch
from ...words import Words
from ..spec import Task
from .batch_job import BatchJob
from .slots import gpus_of_slot, port_of_job, read_host_file, task_of_slot

NAME = "LSF"
_FILE, _COUNTS, _HOSTS = "LSB_DJOB_HOSTFILE", "LSB_MCPU_HOSTS", "LSB_HOSTS"
_TASK = "LSF_PM_TASKID"
_COUNT = re.compile("[1-9][0-9]{0,5}", re.ASCII)
_MOST_SLOTS = 100_000


def is_here(environ: Mapping[str, str]) -> bool:
    """Whether LSF has started this process as a task. A batch script itself is not a task."""
    return "LSB_JOBID" in environ and _TASK in environ


def batch_job(environ: Mapping[str, str]) -> BatchJob | None:
    """The job that this process belongs to."""
    number = environ.get("LSB_JOBID")
    if not number:
        return None
    # One of an array ends alone; of other jobs this is 0.
    index = environ.get("LSB_JOBINDEX", "0")
    name = number if index in ("", "0") else f"{number}[{index}]"
    return BatchJob("lsf", name, ("bkill", name))


def resolve(environ: Mapping[str, str], base_port: int | None) -> Task:
    """The task that ``LSF_PM_TASKID`` is among those of its job.

    Parameters
    ----------
    environ : mapping
        The environment of the task.
    base_port : int or None
        The port of the first task on each host; the next one has the next. Default: one for the job, from
        20000 on, so that several jobs on one host have others.

    Raises
    ------
    LaunchError
        The variables contradict each other, or one is missing.
    """
    hosts = slot_hosts(environ)
    number = environ["LSB_JOBID"]
    port = base_port or port_of_job(7 * int(number) if _COUNT.fullmatch(number[:6]) else 0)
    return task_of_slot(hosts, _rank(environ, hosts), port)


def gpus(environ: Mapping[str, str]) -> dict[str, str]:
    """A task's share of its host's GPUs, where all tasks of the host see the same."""
    hosts = slot_hosts(environ)
    return gpus_of_slot(environ, hosts, _rank(environ, hosts))


def slot_hosts(environ: Mapping[str, str]) -> list[str]:
    """The host of each slot of the job; this one, if LSF says nothing.

    Raises
    ------
    LaunchError
        What LSF says is no list of hosts.
    """
    # The file is on the disk of the first host, and has all hosts; the variable is everywhere.
    if os.path.isfile(environ.get(_FILE, "")):
        hosts = [words[0] for words in read_host_file(environ, _FILE)]
    elif words := environ.get(_COUNTS, "").split():
        names, counts = words[::2], words[1::2]
        if len(names) != len(counts) or not all(map(_COUNT.fullmatch, counts)):
            raise _not_understood(f"{_COUNTS} is {environ[_COUNTS][:200]!r}")
        if sum(map(int, counts)) > _MOST_SLOTS:
            raise _not_understood(f"{_COUNTS} has {sum(map(int, counts))} slots")
        hosts = [name for name, count in zip(names, counts, strict=True) for _ in range(int(count))]
    else:
        hosts = environ.get(_HOSTS, "").split() or [socket.gethostname()]
    if not hosts:
        raise _not_understood(f"{_FILE} is empty")
    return hosts


def _rank(environ: Mapping[str, str], hosts: list[str]) -> int:
    text = environ.get(_TASK, "")
    if not _COUNT.fullmatch(text) or int(text) > len(hosts):
        raise _not_understood(f"{_TASK} is {text!r}, and there are {len(hosts)} slots")
    return int(text) - 1


def _not_understood(found: str) -> LaunchError:
    return LaunchError(
        "LSF's variables must say on which host each task runs.",
        found=found,
        fix=Words(
            "Start the tasks with mpirun, or let `{}` do it.", Launch((Hint("backend", "lsf"),), script=None)
        ),
        reason="batch",
    )

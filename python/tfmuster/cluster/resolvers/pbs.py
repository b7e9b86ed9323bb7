"""A task of a job of PBS: OpenPBS, PBS Professional and Torque, as their ``pbsdsh`` starts it.

Lines of ``$PBS_NODEFILE`` are the workers' indices. Torque gives each task the number of its line,
``PBS_VNODENUM``; the others the number of its host, ``PBS_NODENUM``, which is enough where a host has one
task. ``mpirun`` tells more (:mod:`.mpi`).
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping

from ...errors import LaunchError
from ...options.hints import Hint, Launch
from ...words import Words
from ..spec import Task
from .batch_job import BatchJob
from .slots import gpus_of_slot, port_of_job, read_host_file, task_of_slot

NAME = "PBS"
_HOSTS = "PBS_NODEFILE"
#: The task that is the batch script itself.
_FIRST_TASK = "1"
_NUMBER = re.compile("[0-9]{1,9}", re.ASCII)


def is_here(environ: Mapping[str, str]) -> bool:
    """Whether ``pbsdsh`` has started this process; a batch script itself is no task."""
    if "PBS_JOBID" not in environ or "PBS_TASKNUM" not in environ:
        return False
    return (environ["PBS_TASKNUM"], environ.get("PBS_NODENUM", "0")) != (_FIRST_TASK, "0")


def batch_job(environ: Mapping[str, str]) -> BatchJob | None:
    """The job that this process belongs to, also where ``pbsdsh`` has not started it."""
    number = environ.get("PBS_JOBID")
    return BatchJob("pbs", number, ("qdel", number)) if number else None


def resolve(environ: Mapping[str, str], base_port: int | None) -> Task:
    """The task that this process is among those of its job.

    Parameters
    ----------
    environ : mapping
        The environment of the task, with ``PBS_NODEFILE``.
    base_port : int or None
        The port of the first task on each host; the next one has the next. Default: one for the job, from
        20000 on, so that several jobs on one host have others.

    Raises
    ------
    LaunchError
        A variable is missing, or does not say which of several tasks of its host this one is.
    """
    if _HOSTS not in environ:
        raise LaunchError(
            "A task of PBS must find the hosts of its job.",
            found=f"no {_HOSTS}",
            fix=f"Copy the file to a directory that all hosts have, and name the copy in {_HOSTS}.",
            reason="batch",
        )
    hosts = slot_hosts(environ)
    number = re.match("[0-9]{1,18}", environ["PBS_JOBID"], re.ASCII)
    port = base_port or port_of_job(7 * int(number[0]) if number else 0)
    return task_of_slot(hosts, _rank(environ, hosts), port)


def gpus(environ: Mapping[str, str]) -> dict[str, str]:
    """A task's share of its host's GPUs, where all tasks of the host see the same."""
    hosts = slot_hosts(environ)
    return gpus_of_slot(environ, hosts, _rank(environ, hosts))


def slot_hosts(environ: Mapping[str, str]) -> list[str]:
    """The host of each line of the list; this one, if there is no list.

    Raises
    ------
    LaunchError
        The list can't be read.
    """
    if _HOSTS not in environ:
        return [socket.gethostname()]
    return [words[0] for words in read_host_file(environ, _HOSTS)]


def _rank(environ: Mapping[str, str], hosts: list[str]) -> int:
    line, host = environ.get("PBS_VNODENUM", ""), environ.get("PBS_NODENUM", "")
    if _NUMBER.fullmatch(line) and int(line) < len(hosts):
        return int(line)
    names = list(dict.fromkeys(hosts))
    if not line and _NUMBER.fullmatch(host) and int(host) < len(names) and hosts.count(names[int(host)]) == 1:
        return hosts.index(names[int(host)])
    raise LaunchError(
        "PBS's variables must say which task of the job this is.",
        found=f"PBS_VNODENUM={line!r}, PBS_NODENUM={host!r}, {len(hosts)} lines for {', '.join(names)}",
        fix=Words(
            "Start the tasks with mpirun, or let `{}` do it.", Launch((Hint("backend", "pbs"),), script=None)
        ),
        reason="batch",
    )

"""Find the task of a process that ``qrsh -inherit`` has started in a parallel environment of Sun Grid Engine.

Slots become the indices of the workers, in the order of ``$PE_HOSTFILE`` (sge_pe(5)). Grid Engine numbers the
tasks of each host in the name of their spool directory, ``active_jobs/4711.1/2.node1``.
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
from .slots import port_of_job, read_host_file, share_of_gpus, task_of_slot

NAME = "Grid Engine"
_TASK = re.compile(r".*/[0-9]+\.[0-9]+/([1-9][0-9]{0,6})\.([^/]+)/?", re.ASCII)
_HOSTS = "PE_HOSTFILE"
_SPOOL = "SGE_JOB_SPOOL_DIR"
_MOST_SLOTS = 100_000


def is_here(environ: Mapping[str, str]) -> bool:
    """Tell whether ``qrsh -inherit`` has started this process. A batch script itself is not a task."""
    return "JOB_ID" in environ and _TASK.fullmatch(environ.get(_SPOOL, "")) is not None


def batch_job(environ: Mapping[str, str]) -> BatchJob | None:
    """Return the job that this process belongs to, even if ``qrsh`` has not started the process."""
    number = environ.get("JOB_ID")
    # Other programs also use the variable JOB_ID.
    if not number or _SPOOL not in environ:
        return None
    # Each task of an array job is a separate job. In other jobs the variable is "undefined".
    task = environ.get("SGE_TASK_ID", "")
    return BatchJob("sge", number, ("qdel", number, *(["-t", task] if task.isdigit() else [])))


def resolve(environ: Mapping[str, str], base_port: int | None) -> Task:
    """Find the task of this process in the cluster of its job.

    Parameters
    ----------
    environ : mapping
        The environment of the task, with ``PE_HOSTFILE``, which ``qrsh -inherit -V`` passes on.
    base_port : int or None
        The port of the first task on each host; the next task gets the next port. Default: a port from 20000
        on that depends on the job, so that jobs on one host use different ports.

    Raises
    ------
    LaunchError
        A variable is missing, or there are more tasks on this host than it has slots.
    """
    if _HOSTS not in environ:
        raise LaunchError(
            "A Grid Engine task must find the hosts of its job.",
            found=f"no {_HOSTS}",
            fix="Start it with `qrsh -inherit -V`, in a job that qsub -pe has started.",
            reason="batch",
        )
    hosts = slot_hosts(environ)
    host, local = _place(environ, hosts)
    ranks = [rank for rank, each in enumerate(hosts) if each == host]
    if local >= len(ranks):
        raise LaunchError(
            "A job of Grid Engine must have one task on each of its slots.",
            found=f"task {local + 1} on {host}, which has {len(ranks)} slots",
            fix=Words(
                "Call `qrsh -inherit` once for each slot and for nothing else, or let `{}` start the tasks.",
                Launch((Hint("backend", "sge"),), script=None),
            ),
            reason="batch",
        )
    number = environ["JOB_ID"]
    port = base_port or port_of_job(7 * int(number) if number.isascii() and number.isdigit() else 0)
    return task_of_slot(hosts, ranks[local], port)


def gpus(environ: Mapping[str, str]) -> dict[str, str]:
    """A task's share of its host's GPUs, of which the job's tasks see the same."""
    hosts = slot_hosts(environ)
    host, local = _place(environ, hosts)
    return share_of_gpus(environ, hosts.count(host), local)


def slot_hosts(environ: Mapping[str, str]) -> list[str]:
    """Return the host of each slot of the job; without a parallel environment, only this host.

    Raises
    ------
    LaunchError
        The list can't be read, or has another form.
    """
    if _HOSTS not in environ:
        return [socket.gethostname()]
    hosts: list[str] = []
    for host, *words in read_host_file(environ, _HOSTS):
        count = int(words[0]) if words and re.fullmatch("[0-9]{1,6}", words[0], re.ASCII) else 0
        if not 0 < count <= _MOST_SLOTS - len(hosts):
            raise _not_understood(f"{_HOSTS} has the line {' '.join([host, *words])[:200]!r}")
        hosts += [host] * count
    if not hosts:
        raise _not_understood(f"{_HOSTS} is empty")
    return hosts


def _place(environ: Mapping[str, str], hosts: list[str]) -> tuple[str, int]:
    """Return the host of this task, as the list names it, and the task's number there."""
    task = _TASK.fullmatch(environ.get(_SPOOL, ""))
    assert task is not None
    # The name of the directory has no domain.
    there = [host for host in dict.fromkeys(hosts) if host.partition(".")[0] == task[2].partition(".")[0]]
    if len(there) != 1:
        raise _not_understood(f"{task[2]} is not among {', '.join(dict.fromkeys(hosts))}")
    return there[0], int(task[1]) - 1


def _not_understood(found: str) -> LaunchError:
    return LaunchError(
        "Grid Engine's variables must say on which host each task runs.",
        found=found,
        fix="Start the tasks with `qrsh -inherit -V`, in a job that qsub -pe has started.",
        reason="batch",
    )

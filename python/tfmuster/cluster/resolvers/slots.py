"""What the resolvers of batch systems share: a job's ports, a host's GPUs, the task of a slot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ...errors import LaunchError
from ...system.gpus import VISIBLE, visible_gpus
from ..spec import Cluster, Task

#: Ports below those that Linux takes for outgoing connections: so many blocks of so many from here on.
_FIRST_PORT, _BLOCKS, _BLOCK = 20_000, 192, 64


def port_of_job(number: int) -> int:
    """The first port of a job's tasks on each host; jobs that follow each other have different ones."""
    return _FIRST_PORT + number % _BLOCKS * _BLOCK


def task_of_slot(hosts: Sequence[str], rank: int, base_port: int) -> Task:
    """The task of a rank, if each slot has a worker.

    Parameters
    ----------
    hosts : sequence of str
        The host of each slot, in the order of the ranks.
    rank : int
        Which slot is this task's.
    base_port : int
        The port of the first task on each host; the next one has the next.
    """
    addresses = [f"{host}:{base_port + hosts[:at].count(host)}" for at, host in enumerate(hosts)]
    return Cluster(worker=addresses).task("worker", rank)


def share_of_gpus(environ: Mapping[str, str], tasks: int, local: int) -> dict[str, str]:
    """A task's share of the GPUs that all tasks of its host see; nothing, if there is none for each.

    Parameters
    ----------
    environ : mapping
        The task's variables.
    tasks : int
        How many tasks its host has.
    local : int
        Which of them this one is.
    """
    here = visible_gpus({VISIBLE: environ.get(VISIBLE, "")})
    if tasks < 2 or len(here) < tasks:
        return {}
    each = len(here) // tasks
    return {VISIBLE: ",".join(here[each * local : each * (local + 1)])}


def read_host_file(environ: Mapping[str, str], variable: str) -> list[list[str]]:
    """The words of each line of the file in which a batch system lists the hosts of a job.

    Raises
    ------
    LaunchError
        It can't be read, as where it is on the disk of the job's first host only.
    """
    try:
        text = Path(environ[variable]).read_text()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise LaunchError(
            "Every task must be able to read the list of the job's hosts.",
            found=f"{variable}={environ[variable]}: {why}",
            fix=f"Copy it to a directory that all hosts have, and name the copy in {variable}.",
            reason="hosts",
        ) from error
    return [words for line in text.splitlines() if (words := line.split())]

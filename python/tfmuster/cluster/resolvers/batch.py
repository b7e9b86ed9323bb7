"""Functions that the resolvers of batch systems share: a job's ports, a host's GPUs, the task of a slot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ...errors import LaunchError
from ...system.gpus import VISIBLE, visible_gpus
from ..spec import Cluster, Task

#: The first of the ports that jobs get by their numbers, the number of blocks, and ports per block. All lie
#: below the ports that Linux uses for outgoing connections.
FIRST_PORT = 20_000
_BLOCKS, _BLOCK = 192, 64


def port_of_job(number: int) -> int:
    """Return the first port of a job's tasks on each host. Successive jobs get different ports."""
    return FIRST_PORT + number % _BLOCKS * _BLOCK


def task_of_slot(hosts: Sequence[str], rank: int, base_port: int) -> Task:
    """Find the task of a rank in a cluster with one worker for each slot.

    Parameters
    ----------
    hosts : sequence of str
        The host of each slot, in the order of the ranks.
    rank : int
        Number of this task's slot, from 0.
    base_port : int
        The port of the first task on each host; the next task gets the next port.
    """
    addresses = [f"{host}:{base_port + hosts[:at].count(host)}" for at, host in enumerate(hosts)]
    return Cluster(worker=addresses).task("worker", rank)


def share_of_gpus(environ: Mapping[str, str], tasks: int, local: int) -> dict[str, str]:
    """Return a task's share of the GPUs that all tasks of its host see; nothing if there are too few.

    Parameters
    ----------
    environ : mapping
        The environment of the task.
    tasks : int
        Number of tasks on its host.
    local : int
        Number of this task among them, from 0.
    """
    here = visible_gpus({VISIBLE: environ.get(VISIBLE, "")})
    if tasks < 2 or len(here) < tasks:
        return {}
    each = len(here) // tasks
    return {VISIBLE: ",".join(here[each * local : each * (local + 1)])}


def gpus_of_slot(environ: Mapping[str, str], hosts: Sequence[str], rank: int) -> dict[str, str]:
    """Return the share of a slot in its host's GPUs, where all slots of a host see the same GPUs."""
    return share_of_gpus(environ, hosts.count(hosts[rank]), hosts[:rank].count(hosts[rank]))


def read_host_file(environ: Mapping[str, str], variable: str) -> list[list[str]]:
    """Read the words of each line of the file in which a batch system lists the hosts of a job.

    Raises
    ------
    LaunchError
        The file can't be read, for example because only the job's first host has it.
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

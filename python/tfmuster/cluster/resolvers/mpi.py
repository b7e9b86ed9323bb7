"""Find the task of an MPI rank, from the variables of ``mpirun`` and an exchange between the ranks.

This module supports Open MPI with its derivatives, and every MPI that starts its processes by PMI: MPICH,
Intel MPI, MVAPICH. The variables say which rank this is, but not where the others are. So each rank sends its
addresses and a port to the others (:mod:`.mpi_exchange`), and all choose from these in the same way.
Rank 0 also sends the job's secret.
"""

from __future__ import annotations

import contextlib
import ipaddress
import itertools
import json
import os
import secrets
import socket
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ...environment import TOKEN_VARIABLE
from ...errors import LaunchError
from ...net.ports import held_ports
from ...system.gpus import visible_gpus
from ..spec import Cluster, Task
from .batch import share_of_gpus, whole_number
from .mpi_exchange import Rank, exchange

NAME = "MPI"

#: Rank, size, rank on the machine and size there: Open MPI, then Hydra (MPICH, Intel MPI), then MVAPICH.
_VARIABLES = (
    (
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    ("PMI_RANK", "PMI_SIZE", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"),
)

#: The port that is reserved for this process and its child, and the task that was found. A process resolves
#: its task only once, because all ranks take part in it.
_held = contextlib.ExitStack()
_resolved: list[Task] = []


def is_here(environ: Mapping[str, str]) -> bool:
    """Tell whether ``mpirun`` has started this process; under ``srun --mpi=pmi2``, Slurm has."""
    if "OMPI_COMM_WORLD_RANK" in environ:
        return True
    by_slurm = (environ.get("SLURM_PROCID"), environ.get("SLURM_STEP_NUM_TASKS"))
    by_pmi = (environ.get("PMI_RANK"), environ.get("PMI_SIZE"))
    return None not in by_pmi and by_pmi != by_slurm


def rank_of(environ: Mapping[str, str]) -> Rank:
    """Read the place of this process among the ranks. Raises LaunchError if the variables don't say it."""
    for names in _VARIABLES:
        numbers = [
            number for name in names if (number := whole_number(environ.get(name, ""), 9_999_999)) is not None
        ]
        if len(numbers) == len(names):
            rank, size, local_rank, local_size = numbers
            if rank < size and local_rank < local_size <= size:
                return Rank(rank, size, local_rank, local_size, open_mpi=names[0].startswith("OMPI"))
    seen = sorted({name for names in _VARIABLES for name in names if name in environ})
    raise LaunchError(
        "An MPI rank must find its rank and the number of ranks in its environment.",
        found=", ".join(f"{name}={environ[name][:40]!r}" for name in seen),
        fix="Start it with the mpirun or mpiexec of Open MPI, MPICH or Intel MPI.",
        reason="mpi",
    )


def resolve(environ: Mapping[str, str], base_port: int | None) -> Task:
    """Find the task of this rank; by default on free ports. All ranks must call it. Raises LaunchError."""
    if _resolved:
        return _resolved[0]
    rank = rank_of(environ)
    port = _held.enter_context(held_ports(1))[0] if base_port is None else base_port + rank.local_rank
    report = [*this_peer(port), secrets.token_hex(16)]
    reports = [json.loads(text) for text in exchange(rank, json.dumps(report), environ)]
    peers = [Peer(*place) for *place, _ in reports]
    if environ is os.environ:
        # For this process and its children. A secret that the user has set for all ranks takes precedence.
        os.environ.setdefault(TOKEN_VARIABLE, reports[0][-1])
    hosts = choose_hosts(peers, one_machine=rank.local_size == rank.size)
    addresses = [f"{host}:{peer.port}" for host, peer in zip(hosts, peers, strict=True)]
    _resolved.append(Cluster(worker=addresses).task("worker", rank.rank))
    return _resolved[0]


def gpus(environ: Mapping[str, str]) -> dict[str, str]:
    """Return this rank's share of its machine's GPUs, if there are enough for every rank."""
    rank = rank_of(environ)
    visible = visible_gpus(environ) if rank.local_size > 1 else []
    return share_of_gpus(visible, rank.local_size, rank.local_rank)


#: Number of addresses that a machine reports at most, because they must fit into one exchange.
_MOST_ADDRESSES = 12


class Peer(NamedTuple):
    """A task's report about its machine: its host name, and the port on which the task will listen."""

    name: str
    port: int
    #: IPv4 addresses with prefix lengths, such as ``10.0.0.1/24``, the best first.
    addresses: Sequence[str]


def this_peer(port: int) -> Peer:
    """Report about this machine. The address that its host name resolves to comes first."""
    import psutil

    name = socket.gethostname()
    try:
        named = {str(sockaddr[0]) for *_, sockaddr in socket.getaddrinfo(name, None, socket.AF_INET)}
    except OSError:
        named = set()
    up = {interface for interface, state in psutil.net_if_stats().items() if state.isup}
    reports = [
        (report.address not in named, ipaddress.IPv4Interface(f"{report.address}/{report.netmask}"))
        for interface, addresses in psutil.net_if_addrs().items()
        if interface in up
        for report in addresses
        if report.family == socket.AF_INET and report.netmask
    ]
    usable = [
        str(address)
        for _, address in sorted(reports, key=lambda report: report[0])
        if not (address.is_loopback or address.is_link_local or address.is_unspecified)
    ]
    return Peer(name, port, usable[:_MOST_ADDRESSES])


def choose_hosts(peers: Sequence[Peer], *, one_machine: bool = False) -> list[str]:
    """Choose the host part of each task's address, with the same result on every machine.

    Hosts are IP addresses of a network in which all machines have an address. If there is no such network,
    they are the host names of the machines.
    """
    machines = {peer.name: peer for peer in peers}
    if one_machine or len(machines) == 1:
        return ["127.0.0.1"] * len(peers)
    # Bridges of containers and virtual machines have the same address on every machine.
    hosts = {name: [text.partition("/")[0] for text in peer.addresses] for name, peer in machines.items()}
    often = Counter(itertools.chain.from_iterable(hosts.values()))
    for text in peers[0].addresses:
        network = ipaddress.IPv4Network(text, strict=False)
        chosen = {
            name: host
            for name, addresses in hosts.items()
            for host in reversed(addresses)  # so that the first one stays
            if often[host] == 1 and ipaddress.IPv4Address(host) in network
        }
        if len(chosen) == len(machines):
            return [chosen[peer.name] for peer in peers]
    return [peer.name for peer in peers]

"""Which engine takes a job to where it is to run: this machine, ssh, or one that places processes itself."""

from __future__ import annotations

from collections.abc import Callable

from ...errors import LaunchError
from .base import Engine, Where
from .local import ThisMachine


def _local(where: Where) -> Engine:
    from .hosts import named_hosts, only_this_machine

    machines = named_hosts(where.hosts, where.hostfile)
    if machines and not only_this_machine(machines):
        raise LaunchError(
            "The backend local runs everything on this machine.",
            found=f"hosts {', '.join(host.name for host in machines)}",
            fix="Leave the hosts out, or choose the backend ssh.",
            reason="backend",
        )
    return _here_or_ssh(where)


def _ssh(where: Where) -> Engine:
    if where.hosts is None and where.hostfile is None:
        raise LaunchError(
            "The backend ssh must know the hosts.",
            found="none",
            fix="Name them: -H node1:2,node2:2, or --hostfile.",
            reason="hosts",
        )
    return _here_or_ssh(where)


def _here_or_ssh(where: Where) -> Engine:
    """With hosts ssh, unless they are all this machine."""
    from .hosts import named_hosts, only_this_machine

    machines = named_hosts(where.hosts, where.hostfile)
    if not machines:
        return ThisMachine()
    if only_this_machine(machines):
        return ThisMachine(sum(host.slots for host in machines))
    from .ssh import Ssh, SshOptions

    return Ssh(
        SshOptions(
            machines,
            where.copy,
            where.remote_python,
            where.ssh_config,
            where.addresses,
            tuple(where.files),
        )
    )


def _spark(where: Where) -> Engine:
    from .spark import Spark

    return Spark.of(
        where.backend_options,
        master=where.master,
        session=where.spark,
        files=where.files,
        python=where.remote_python,
    )


def _mpi(where: Where) -> Engine:
    from .mpi import Mpi

    return Mpi.of(where)


def _slurm(where: Where) -> Engine:
    from .slurm import Slurm

    return Slurm.of(where)


#: The names of the engines, and what makes each from what its user says.
_ENGINES: dict[str | None, Callable[[Where], Engine]] = {
    None: _here_or_ssh,
    "local": _local,
    "ssh": _ssh,
    "mpi": _mpi,
    "slurm": _slurm,
    "spark": _spark,
}
BACKENDS = tuple(name for name in _ENGINES if name)


def engine_for(where: Where) -> Engine:
    """The engine that takes a job there.

    Raises
    ------
    LaunchError
        There is no such engine, or it can't be used so.
    """
    if where.backend not in _ENGINES:
        raise LaunchError(
            f"There is no backend {where.backend!r}.",
            fix=f"Choose one of {', '.join(BACKENDS)}.",
            reason="backend",
        )
    if where.backend != "spark" and (where.master or where.spark is not None):
        raise _unread("A master or session of Spark", where)
    if where.backend in (None, "local", "ssh") and where.backend_options:
        raise _unread("An option of a backend's own", where)
    return _ENGINES[where.backend](where)


def _unread(what: str, where: Where) -> LaunchError:
    """What nothing would read: the job would run elsewhere, or otherwise, than its user means."""
    return LaunchError(
        f"{what} needs a backend that reads it.",
        found="no backend" if where.backend is None else f"the backend {where.backend}",
        fix="Name the backend, or leave it out.",
        reason="backend",
    )

"""Which engine takes a job to where it is to run: this machine, ssh, or one that places processes itself."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import EXIT_NOT_EVERYONE, EXIT_WORKER_FAILED, LaunchError

if TYPE_CHECKING:
    from ..runs import Run
    from .failure import Failure
    from .local import LocalJob


@dataclass(frozen=True, kw_only=True)
class Where:
    """Where a job is to run, as its user says it; see :func:`tfmuster.launch.launch` for the fields."""

    backend: str | None = None
    hosts: str | None = None
    hostfile: str | os.PathLike[str] | None = None
    copy: bool = False
    files: Sequence[str | os.PathLike[str]] = ()
    remote_python: str | None = None
    ssh_config: str | os.PathLike[str] | None = None
    addresses: Mapping[str, str] = field(default_factory=dict)
    backend_options: Sequence[str] = ()
    master: str | None = None
    spark: Any = None


class Engine(Protocol):
    """What takes jobs to one kind of place."""

    @property
    def slots(self) -> int | None:
        """How many tasks it has room for; None if that is not known beforehand."""

    def as_options(self) -> list[str]:
        """The same engine as options of ``tfmuster launch``."""

    def run(self, job: LocalJob, *, show: str = "all", tell: bool = False) -> tuple[Run, Failure | None]:
        """Run a job to its end; its run directory, and the first failure of its last attempt.

        Parameters
        ----------
        job : LocalJob
            What to run.
        show : str
            Whose lines to show: ``"all"``, ``"chief"`` or ``"nothing"``.
        tell : bool
            Whether to say on stderr what is started, and where.

        Raises
        ------
        LaunchError
            It could not be started.
        """


@dataclass(frozen=True)
class ThisMachine:
    """Starts the processes itself."""

    slots: int | None = None

    def as_options(self) -> list[str]:
        """None are needed."""
        return []

    def run(self, job: LocalJob, *, show: str = "all", tell: bool = False) -> tuple[Run, Failure | None]:
        """See :class:`Engine`."""
        from .local import run_job

        return run_job(job, show=show, tell=tell)


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
    from .ssh import Ssh
    from .ssh_options import SshOptions

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


def start_detached(engine: Engine, job: LocalJob) -> Run:
    """Start a job that goes on when this process ends; its run directory, as soon as it has one, or waits.

    Raises
    ------
    LaunchError
        It could not be started.
    """
    from . import local, slurm

    if isinstance(engine, slurm.Slurm) and not slurm.inside_allocation(os.environ):
        # It may wait for its machines for hours.
        return engine.submit(job).run
    return local.start_detached(job, engine.as_options())


def workers_for(workers: int | None, slots: int | None, *, others: int) -> int:
    """The number of workers: as given, else as many as have slots beside the `others`, else 2."""
    if workers is not None:
        return workers
    return max(1, slots - others) if slots else 2


def run_and_report(engine: Engine, job: LocalJob, *, show: str = "all", timings: bool = False) -> int:
    """Run a job to its end and say on stderr how it ended; the exit code.

    With ``timings`` it says, too, where the time to the first step went.

    Raises
    ------
    LaunchError
        It could not be started.
    """
    begun = time.monotonic()
    run, failure = engine.run(job, show=show, tell=show != "nothing")
    if timings:
        from .timings import timings_table

        print(f"\n{timings_table(run)}", file=sys.stderr)
    if failure is not None:
        print(f"\n{failure}", file=sys.stderr)
        return EXIT_NOT_EVERYONE if failure.not_everyone else EXIT_WORKER_FAILED
    if show != "nothing":
        seconds = time.monotonic() - begun
        print(f"tfmuster: done in {seconds:.1f} s; {shown_path(run)}", file=sys.stderr)
    return 0


def shown_path(run: Run) -> str:
    """Where a run's directory is, for the screen."""
    return f"run directory {os.path.relpath(run.path)}"

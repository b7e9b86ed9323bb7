"""Run the workers of a job on this machine.

This works on Linux and macOS. On Windows, use WSL, in which TensorFlow runs on Linux.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from ...cluster.spec import Cluster, Task, hosts_of
from ...cluster.tf_config import task_variables
from ...environment import ERROR_FILE_VARIABLE, JOB_VARIABLE, KERAS_COMPAT_VARIABLE, RUN_DIR_VARIABLE
from ...errors import LaunchError
from ...net.ports import held_ports
from ...options import table
from ...system.gpus import assign_gpus
from ...system.interpreter import worker_environment
from ...system.limits import need_files
from ...system.private_network import private_network
from ...system.say import say
from ...tracking.failure.failure import Failure
from ...tracking.lifecycle.beginning import record_git
from ...tracking.record.layout import file_stem
from ...tracking.run import Run
from ..begin import begin_run
from ..capacity import check_capacity
from ..job import Job, command_of, resolve_command
from ..supervise.display import shown_path
from ..supervise.restarts import Attempt, with_restarts
from ..supervise.spares import Spares, can_wait, check_warm
from ..supervise.supervisor import Supervisor
from ..supervise.warm_workers import warm_workers_for
from ..supervise.worker_process import Placement
from .base import Engine
from .hosts import Host, named_hosts, only_this_machine

HOST = "127.0.0.1"


@dataclass(frozen=True)
class ThisMachine(Engine):
    """Runs jobs on this machine.

    Attributes
    ----------
    hosts : sequence of Host
        Names of this machine with their slots. May be empty.
    """

    where: table.Local = field(default_factory=table.Local)
    hosts: Sequence[Host] = ()

    @property
    def slots(self) -> int | None:
        """Slots of the hosts; None without hosts."""
        return sum(host.slots for host in self.hosts) or None

    def as_options(self) -> list[str]:
        """Return only these options: the job's options give the number of workers."""
        return self.where.on_command_line(hosts=None, hostfile=None)

    def run(self, job: Job, *, show: str = "all", tell: bool = False) -> tuple[Run, Failure | None]:
        """See :class:`.base.Engine`."""
        command = resolve_command(job.command)
        if not self.where.oversubscribe:
            check_capacity(job)
        if self.where.warm:
            check_warm(job, waits=can_wait(command), found=command[0])
        kept = warm_workers_for(command)
        kinds = [kind for kind, size in job.sizes().items() for _ in range(size)]
        gpus = assign_gpus(kinds, job.gpus_per_worker, {**os.environ, **job.env})

        def once(attempt: Attempt) -> tuple[Run, Failure | None]:
            spares.wanted = self.where.warm and attempt.number < attempt.most
            return _run_once(
                job, (*enter, *command), gpus, attempt, show=show, tell=tell, spares=kept or spares
            )

        with _own_network() if self.where.isolated else nullcontext(()) as enter, Spares() as spares:
            return with_restarts(once, job.max_restarts, tell=show != "nothing")


def of(where: table.Local) -> ThisMachine:
    """Make the engine for this machine.

    Raises
    ------
    LaunchError
        If another machine is named.
    """
    machines = named_hosts(where.hosts, where.hostfile)
    if machines and not only_this_machine(machines):
        raise LaunchError(
            "The backend local runs all tasks on this machine.",
            found=f"hosts {', '.join(host.name for host in machines)}",
            fix="Leave the hosts out, or choose the backend ssh.",
            reason="backend",
        )
    return ThisMachine(where, machines)


def available(seconds: float) -> str:
    """Always."""
    return ""


@contextmanager
def _own_network() -> Iterator[tuple[str, ...]]:
    with ExitStack() as stack:
        try:
            enter = stack.enter_context(private_network())
        except OSError as error:
            raise LaunchError(
                "The workers can't get a network of their own here (isolated).",
                found=str(error),
                fix="Leave isolated out: other users still can't connect to the workers.",
                reason="isolated",
            ) from error
        yield enter


def _run_once(
    job: Job,
    command: tuple[str, ...],
    gpus: Sequence[Mapping[str, str]],
    attempt: Attempt,
    *,
    show: str,
    tell: bool,
    spares: Spares,
) -> tuple[Run, Failure | None]:
    sizes = job.sizes()
    # For each worker a port, a pipe and a log.
    need_files(32 + 3 * sum(sizes.values()), f"A job of {_count(sizes)} on this machine")
    with held_ports(sum(sizes.values())) as ports:
        remaining = iter(ports)
        addresses = {
            name: tuple(f"{HOST}:{next(remaining)}" for _ in range(size))
            for name, size in sizes.items()
            if size
        }
        cluster = Cluster(**addresses)
        run = begin_run(job, attempt, cluster)
        if tell and attempt.number == 0:
            say(f"tfmuster: {_count(sizes)} on this machine; {shown_path(run)}")
        placements = placements_of(job, command, gpus, attempt=attempt, cluster=cluster, folder=run.path)
        if attempt.number == 0:
            record_git(run.path)
        supervisor = Supervisor(
            attempt.name, run, placements, show=show, another_after=attempt.another_after, spares=spares
        )
        return run, supervisor.supervise()


def placements_of(
    job: Job,
    command: tuple[str, ...],
    gpus: Sequence[Mapping[str, str]],
    *,
    attempt: Attempt,
    cluster: Cluster,
    folder: Path,
) -> list[Placement]:
    """Return the processes of a job whose run directory is `folder`."""
    return [
        Placement(
            task.name,
            task.is_chief,
            command_of(command, task),
            {**task_environment(job, attempt, task, folder), **visible},
        )
        for task, visible in zip(cluster.tasks(), gpus, strict=True)
    ]


def task_environment(job: Job, attempt: Attempt, task: Task, folder: Path) -> dict[str, str]:
    """Return the complete environment of one worker of a job whose run directory is `folder`."""
    variables = {**os.environ, **job.variables(attempt)}
    environment = worker_environment({**variables, **task_variables(task, variables)}, hosts_of(task.cluster))
    environment.pop(KERAS_COMPAT_VARIABLE, None)
    if not job.keras_compat:
        environment[KERAS_COMPAT_VARIABLE] = "0"
    stem = file_stem(task.name)
    return {
        **environment,
        JOB_VARIABLE: attempt.name,
        RUN_DIR_VARIABLE: str(folder),
        ERROR_FILE_VARIABLE: str(folder / "logs" / f"{stem}.error.json"),
    }


def _count(sizes: Mapping[str, int]) -> str:
    plural = {"worker": "workers", "ps": "parameter servers"}
    singular = {"ps": "parameter server"}
    return ", ".join(
        f"{size} {plural.get(name, name) if size > 1 else singular.get(name, name)}"
        for name, size in sizes.items()
        if size
    )

"""Run the workers of a job on this machine.

This works on Linux and macOS. On Windows, use WSL, in which TensorFlow runs on Linux.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from ...cluster.spec import Cluster, hosts_of
from ...cluster.tf_config import task_variables
from ...environment import ERROR_FILE_VARIABLE, JOB_VARIABLE, KERAS_COMPAT_VARIABLE, RUN_DIR_VARIABLE
from ...errors import LaunchError
from ...net.ports import check_loopback, held_ports
from ...options import places
from ...system.gpus import assign_gpus
from ...system.limits import check_processes, need_files
from ...system.private_network import private_network
from ...system.say import say
from ...system.worker_environment import worker_environment
from ...tracking.failure.failure import Failure
from ...tracking.record.layout import file_stem
from ...tracking.run import Run
from ..capacity import check_capacity
from ..command import command_of, resolve_command
from ..job import Job, begin_run
from ..supervise.display import shown_path
from ..supervise.restarts import Attempt, with_restarts
from ..supervise.spares import Spares, can_wait, check_warm, is_own, warm_workers_for
from ..supervise.supervisor import Supervisor
from ..supervise.worker_process import Placement
from .base import Engine
from .hosts import named_hosts, only_this_machine

HOST = "127.0.0.1"


@dataclass(frozen=True)
class ThisMachine(Engine):
    """Runs jobs on this machine, of which the hosts are names."""

    where: places.Local = field(default_factory=places.Local)

    def as_options(self) -> list[str]:
        """Return only these options: the job's options give the number of workers."""
        return self.where.on_command_line(hosts=None, hostfile=None)

    def run(self, job: Job, *, show: str = "all", tell: bool = False) -> tuple[Run, Failure | None]:
        """See :class:`.base.Engine`."""
        command = resolve_command(job.command)
        check_processes()
        if not self.where.isolated:
            check_loopback(HOST)
        if not self.where.oversubscribe:
            check_capacity(job.command[0], len(job.kinds))
        if self.where.warm:
            check_warm(job, command[0], waits=can_wait(command))
        warm_workers = warm_workers_for(command)
        gpus = assign_gpus(job.kinds, job.gpus_per_worker, {**os.environ, **job.env})
        tasks = f"{_count(job.sizes)} on this machine"
        if command[1:] == tuple(job.command) and not is_own(command[0]):
            tasks += f", with {command[0]}"
        # For each worker a port, a pipe and a log.
        need_files(32 + 3 * len(job.kinds), f"A job of {tasks}")

        def once(attempt: Attempt) -> tuple[Run, Failure | None]:
            spares.wanted = self.where.warm and attempt.number < attempt.most
            with held_ports(len(job.kinds)) as ports:
                addresses = iter([f"{HOST}:{port}" for port in ports])
                sizes = {kind: size for kind, size in job.sizes.items() if size}
                cluster = Cluster(**{kind: tuple(islice(addresses, size)) for kind, size in sizes.items()})
                run = begin_run(job, attempt, cluster)
                if tell and attempt.number == 0:
                    say(f"tfmuster: {tasks}; {shown_path(run)}")
                placements = placements_of(
                    job, (*enter, *command), gpus, attempt=attempt, cluster=cluster, folder=run.path
                )
                supervisor = Supervisor(attempt, run, placements, show=show, spares=warm_workers or spares)
                return run, supervisor.supervise()

        with ExitStack() as stack, Spares() as spares:
            enter = _own_network(stack) if self.where.isolated else ()
            return with_restarts(once, job.max_restarts, tell=show != "nothing")


def make_engine(where: places.Local) -> ThisMachine:
    """Make the engine for this machine. Raises LaunchError if another machine is named."""
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
    """Return no version: this machine can always be used."""
    return ""


def _own_network(stack: ExitStack) -> tuple[str, ...]:
    """Make a network that lasts as long as `stack`, and return what runs a command in it."""
    try:
        return stack.enter_context(private_network())
    except OSError as error:
        raise LaunchError(
            "The workers can't get a network of their own here (isolated).",
            found=str(error),
            fix="Leave isolated out: other users still can't connect to the workers.",
            reason="isolated",
        ) from error


def placements_of(
    job: Job,
    command: tuple[str, ...],
    gpus: Sequence[Mapping[str, str]],
    *,
    attempt: Attempt,
    cluster: Cluster,
    folder: Path,
) -> list[Placement]:
    """Return the processes of a job whose run directory is `folder`, each with its complete environment."""
    # The launcher may itself be a worker.
    inherited = {name: value for name, value in os.environ.items() if name != KERAS_COMPAT_VARIABLE}
    shared = {
        **inherited,
        **job.variables(attempt),
        JOB_VARIABLE: attempt.name,
        RUN_DIR_VARIABLE: str(folder),
    }
    placements = []
    for task, visible in zip(cluster.tasks(), gpus, strict=True):
        environment = worker_environment({**shared, **task_variables(task, shared)}, hosts_of(cluster))
        environment[ERROR_FILE_VARIABLE] = str(folder / "logs" / f"{file_stem(task.name)}.error.json")
        placements.append(
            Placement(task.name, task.is_chief, command_of(command, task), {**environment, **visible})
        )
    return placements


def _count(sizes: Mapping[str, int]) -> str:
    names = {"ps": "parameter server"}
    return ", ".join(
        f"{size} {names.get(name, name)}{'s' * (size > 1)}" for name, size in sizes.items() if size
    )

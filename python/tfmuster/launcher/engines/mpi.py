"""Run a job through MPI: ``mpirun`` starts the agents on this machine, on others, or in a batch job.

MPI only starts processes. Open MPI works, and so do MPICH and Intel MPI, whose process manager is Hydra.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from dataclasses import dataclass, field
from functools import partial

from ...environment import MPIRUN_VARIABLE
from ...errors import LaunchError, TfmusterError
from ...options import places
from ...options.hints import Hint
from ...system.ask import ask
from ...system.interpreter import python_executable
from ...tracking.failure.failure import Failure
from ...tracking.run import Run
from ...words import Words
from ..job import Job
from ..remote.engine_agents import AgentRequest, run_with_agents
from .agent_command import AgentCommand
from .base import Engine, UnavailableError, version_of
from .hosts import named_hosts

#: The variables that have the rank of a process.
_RANKS = ("OMPI_COMM_WORLD_RANK", "PMI_RANK")
_ASK_SECONDS = 20.0
_NO_SLOTS = re.compile(r"not enough slots|more processes? .* than|requested .* slots", re.IGNORECASE)


@dataclass(frozen=True)
class Mpi(Engine):
    """Runs jobs through ``mpirun``. Hydra uses only the user's own ssh configuration.

    Without hosts, mpirun uses the machines of the batch job, or this one.
    """

    where: places.Mpi = field(default_factory=places.Mpi)

    def as_options(self) -> list[str]:
        """See :class:`.base.Engine`."""
        hosts = ",".join(map(str, self.hosts)) or None
        return ["--backend=mpi", *self.where.on_command_line(hosts=hosts, hostfile=None)]

    def run(self, job: Job, *, show: str = "all", tell: bool = False) -> tuple[Run, Failure | None]:
        """See :class:`.base.Engine`."""
        return run_with_agents(job, self.where, self.start, show=show, tell=tell)

    def start(self, request: AgentRequest) -> AgentCommand:
        """Start the agents."""
        program = mpirun_program()
        agent = request.command(self.where.remote_python or python_executable(), rank_from=_RANKS)
        options = [word for option in self.where.backend_options for word in shlex.split(option)]
        command = [program, "-np", str(request.count), *self._placing(program, request), *options, *agent]
        return AgentCommand(command, {**os.environ, **request.env}, request, partial(_explain, request.count))

    def _placing(self, program: str, request: AgentRequest) -> list[str]:
        """Return the options that differ between implementations of MPI."""
        hosts = ",".join(map(str, self.hosts))
        # The agents change to the job's directory themselves, and report it if it is missing.
        if not _is_open_mpi(program):
            return ["-wdir", "/", *(["-hosts", hosts] if hosts else [])]
        # TensorFlow starts threads for all cores, which must not be bound to one core.
        options = ["-wdir", "/", "--bind-to", "none", *(["-H", hosts] if hosts else [])]
        options += [word for name in request.env for word in ("-x", name)]
        if self.where.ssh_config is not None:
            options += ["--mca", "plm_rsh_agent", f"ssh -F {os.fspath(self.where.ssh_config)}"]
        return [*options, "--allow-run-as-root"] if os.geteuid() == 0 else options


def make_engine(where: places.Mpi) -> Mpi:
    """Make the engine for mpirun. Raises LaunchError if it does not support a setting."""
    hosts = named_hosts(where.hosts, where.hostfile)
    users = [host.target for host in hosts if host.user]
    if users or where.addresses:
        raise LaunchError(
            "mpirun takes only host names, and finds users and addresses itself.",
            found=", ".join([*users, *(f"--address {host}" for host in where.addresses)]),
            fix="Set User and HostName in ssh's configuration.",
            reason="hosts",
        )
    return Mpi(where, hosts)


def available(seconds: float) -> str:
    """Return the name and version of the MPI."""
    try:
        program = mpirun_program()
    except LaunchError as error:
        raise UnavailableError(f"{error.found} (apt-get install openmpi-bin)") from error
    answer = version_of(program, "--version", seconds=seconds)
    hydra = re.search(r"Version:\s*(\S+)", answer.output) if "HYDRA" in answer.output else None
    return f"MPICH {hydra[1]}" if hydra else answer.first_line


def _explain(count: int, text: str, lines: str) -> TfmusterError:
    """Make the error that says why mpirun has not started all agents."""
    if _NO_SLOTS.search(text):
        return LaunchError(
            "mpirun must have a slot for every task.",
            found=f"{count} tasks; it says: {lines}",
            fix=Words(
                "Give the hosts more slots ({}), start fewer workers ({}), or let Open MPI start more "
                "processes than there are cores ({}).",
                Hint("hosts", "node1:2,node2:2", "mpi"),
                Hint("workers"),
                Hint("backend_options", "--oversubscribe", "mpi"),
            ),
            reason="slots",
        )
    return LaunchError(
        f"mpirun must start {count} processes.",
        found=lines,
        fix="Check that `mpirun hostname` works with the same hosts.",
        reason="mpi",
    )


def mpirun_program() -> str:
    """Return the path of ``mpirun``. Raises LaunchError if it is missing."""
    wanted = os.environ.get(MPIRUN_VARIABLE)
    for name in (wanted,) if wanted else ("mpirun", "mpiexec"):
        if path := shutil.which(name):
            return path
    raise LaunchError(
        "The backend mpi needs mpirun.",
        found=f"no {wanted or 'mpirun'} on PATH",
        fix="Install Open MPI or MPICH (Debian, Ubuntu: apt-get install openmpi-bin), or load its module.",
        reason="mpi",
    )


def _is_open_mpi(program: str) -> bool:
    version = ask(program, "--version", seconds=_ASK_SECONDS).output
    return "Open MPI" in version or "OpenRTE" in version

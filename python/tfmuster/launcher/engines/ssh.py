"""Run the workers of a job on other machines, through the system's ssh.

The remote shell reads only the quoted path of a Python with a fixed program. The script, its arguments,
directories, files, the environment and the job's token are sent over ssh's input to
:mod:`~tfmuster.launcher.remote.agents.agent`.
Each worker has one connection, which first checks its host and then runs the worker
(:mod:`~tfmuster.launcher.remote.run`).
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from ...environment import start_timeout
from ...errors import LaunchError
from ...net.addresses import address_problems
from ...options import places
from ...options.hints import Hint
from ...system.ask import NoAnswerError, ask
from ...system.interpreter import python_executable
from ...tracking.failure.failure import Failure
from ...tracking.run import Run
from ...words import Code, Value, Words
from ..job import Job
from ..remote.files import SCRIPTS, script_to_send
from ..remote.membership import Membership, Task, discovered_hosts
from ..remote.proxy_process import AgentPlace, SpareAgents
from ..remote.run import RemoteJob, agent_command, run_remote
from ..supervise.restarts import Attempt, with_restarts
from ..supervise.spares import check_warm
from .base import Engine, find_program, version_of
from .hosts import Host, named_hosts, only_this_machine
from .local import ThisMachine

# These override the user's configuration for interactive logins: no user can answer questions here, no port
# may be forwarded several times, and no connection may stay in the background.
_SSH_OPTIONS = (
    "BatchMode=yes",
    "LogLevel=ERROR",
    "RequestTTY=no",
    "RemoteCommand=none",
    "ClearAllForwardings=yes",
    "ForwardX11=no",
    # The training needs neither the user's keys nor tickets, and whoever is root there could use them.
    "ForwardAgent=no",
    "GSSAPIDelegateCredentials=no",
    "PermitLocalCommand=no",
    "ControlMaster=no",
    "StdinNull=no",
    "ForkAfterAuthentication=no",
)

_CONNECT_SECONDS = 10
#: How long ssh may take to read its configuration, in seconds.
_CONFIG_SECONDS = 20.0


@dataclass(frozen=True)
class Ssh(Engine):
    """Runs jobs on other machines through ssh."""

    where: places.Ssh = field(default_factory=places.Ssh)

    def __post_init__(self) -> None:
        python = self.python
        if python.startswith("-") or any(ord(character) < 32 for character in python):
            raise LaunchError(
                "The Python of the hosts must be a path or the name of a command.",
                found=str(Value(python)),
                fix=Words("Give it with {}, such as /opt/venv/bin/python.", Hint("remote_python")),
                reason="remote-python",
            )
        names = {host.name for host in self.hosts}
        for name, address in self.where.addresses.items():
            known = name in names or self.where.hosts_from is not None
            if not known or any(address_problems(f"{address}:1")):
                raise LaunchError(
                    "--address must give one of the hosts the name or address by which the others reach it.",
                    found=f"{name}={address}"[:200],
                    fix=Words("Write it as HOST=ADDRESS, with a HOST of {}.", Hint("hosts")),
                    reason="address",
                )

    def run(self, job: Job, *, show: str = "all", tell: bool = False) -> tuple[Run, Failure | None]:
        """See :class:`.base.Engine`."""
        where = self.where
        if where.copy:
            # Report files that can't be sent before the hosts report them as missing.
            script_to_send(Path(job.command[0]))
        if where.warm:
            program = job.command[0]
            check_warm(job, program, waits=program == "tfmuster" or Path(program).suffix.lower() in SCRIPTS)
        seconds = start_timeout(job.start_timeout)
        membership = Membership(where, self.hosts, job)

        def once(attempt: Attempt) -> tuple[Run, Failure | None]:
            if where.warm:
                spares.wanted = attempt.number < attempt.most
                attempt = replace(attempt, name=spares.name)
            return membership.start(attempt, partial(on_hosts, attempt))

        def on_hosts(attempt: Attempt, tasks: Sequence[Task]) -> tuple[Run, Failure | None]:
            names = {host.name: self.names(host) for host in dict.fromkeys(host for *_, host in tasks)}
            places = [
                AgentPlace(kind, host.name, {"ssh": self.agent_command(host, seconds), "host": host.target})
                for kind, _, host in tasks
            ]
            remote_job = RemoteJob(job, attempt, where, may_shrink=where.min_workers is not None)
            with membership.growth(tasks, self._can_be_reached) as new_hosts:
                return run_remote(
                    *(remote_job, places, names),
                    show=show,
                    tell=tell,
                    new_hosts=new_hosts,
                    spares=spares if where.warm else None,
                )

        with SpareAgents() as spares:
            return with_restarts(once, job.max_restarts, tell=show != "nothing")

    @property
    def python(self) -> str:
        """Path of the Python on the hosts."""
        return self.where.remote_python or python_executable()

    def as_options(self) -> list[str]:
        """See :class:`.base.Engine`."""
        hosts = ",".join(map(str, self.hosts))
        named = hosts if self.where.hosts_from is None else None
        return self.where.on_command_line(hosts=named, hostfile=None, remote_python=self.python)

    def ssh(self, *arguments: str) -> list[str]:
        """Return an argument list that runs ssh."""
        path = shutil.which("ssh")
        if path is None:
            raise LaunchError(
                "The backend ssh needs the program ssh.",
                found="no ssh on PATH",
                fix="Install it (Debian, Ubuntu: apt-get install openssh-client).",
                reason="ssh",
            )
        config = [] if self.where.ssh_config is None else ["-F", str(self.where.ssh_config)]
        return [path, *config, *arguments]

    def agent_command(self, host: Host, seconds: float) -> list[str]:
        """Return an argument list that starts an agent on a host."""
        return self._to(host, seconds, shlex.join(agent_command(self.python, "agent")))

    def _can_be_reached(self, host: Host) -> bool:
        """Return whether a command can be run on a host."""
        try:
            return not ask(*self._to(host, _CONNECT_SECONDS, "exit 0"), seconds=2 * _CONNECT_SECONDS).code
        except NoAnswerError:
            return False

    def _to(self, host: Host, seconds: float, remote: str) -> list[str]:
        # ssh must give up before its caller does, because only ssh reports the reason.
        options = [*_SSH_OPTIONS, f"ConnectTimeout={max(1, min(_CONNECT_SECONDS, int(seconds) - 2))}"]
        flags = [word for option in options for word in ("-o", option)]
        return self.ssh(*flags, "--", host.target, remote)

    def names(self, host: Host) -> list[str]:
        """Return the names by which other hosts may know a host: as given, then ssh's ``HostName``."""
        if host.name in self.where.addresses:
            return [self.where.addresses[host.name]]
        names = [host.name]
        for line in ask(*self.ssh("-G", "--", host.target), seconds=_CONFIG_SECONDS).output.splitlines():
            key, _, value = line.partition(" ")
            value = f"[{value}]" if ":" in value else value
            if key == "hostname" and value not in names and not any(address_problems(f"{value}:1")):
                names.append(value)
        return names


def make_engine(where: places.Ssh) -> Engine:
    """Make the engine for the hosts: ssh, or the local engine if all hosts are this machine."""
    if where.hosts_from is not None:
        if where.hosts is not None or where.hostfile is not None:
            raise LaunchError(
                "Give the hosts, or a command that names them.",
                found="both",
                fix="Leave one out.",
                reason="hosts",
            )
        return Ssh(where, discovered_hosts(where.hosts_from))
    if where.hosts is None and where.hostfile is None:
        raise LaunchError(
            "The backend ssh must know the hosts.",
            found="none",
            fix=Words("Name them: {}{}.", Hint("hosts", "node1:2,node2:2"), Code("", "", ", or --hostfile")),
            reason="hosts",
        )
    machines = named_hosts(where.hosts, where.hostfile)
    if only_this_machine(machines):
        return ThisMachine(places.Local(warm=where.warm, oversubscribe=where.oversubscribe), machines)
    return Ssh(where, machines)


def available(seconds: float) -> str:
    """Return the version of ssh."""
    return version_of(find_program("ssh", "apt-get install openssh-client"), "-V", seconds=seconds).first_line

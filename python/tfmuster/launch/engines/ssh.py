"""Place the workers of a job on other machines, through the system's ssh.

Nothing but the path of a Python is ever part of a command that a remote shell reads: the program, its
arguments, directories, files, the environment and the job's token go over ssh's input, to
:mod:`~tfmuster.launch.remote.agent`.
One connection per worker asks everything first, then carries the worker (:mod:`~tfmuster.launch.remote.run`).
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ...environment import start_timeout
from ...errors import LaunchError
from ...net.addresses import address_problems
from ...runs.failure import Failure
from ...runs.run import Run
from ...system.ask import ask
from ...system.interpreter import package_root, python_executable
from ..job import Job
from ..remote.files import script_to_send
from ..remote.run import AgentPlace, RemoteJob, run_remote
from ..supervise.restarts import Attempt, with_restarts
from .base import Engine, Where, find_program, version_of
from .hosts import Host, named_hosts, only_this_machine, place_tasks
from .local import ThisMachine

# A checkout that is not installed is found there if the hosts share it. The home directory, where a login
# begins, is no place to import from.
_START = (
    "import sys; sys.path = [p for p in sys.path if p] + sys.argv[1:]; "
    "from tfmuster.launch.remote.agent import main; main()"
)

# Whatever the user's configuration says for a login by hand, here nobody can be asked, no port of this
# machine is to be forwarded several times, and no connection is to stay in the background afterwards.
_SSH_OPTIONS = (
    "BatchMode=yes",
    "LogLevel=ERROR",
    "RequestTTY=no",
    "RemoteCommand=none",
    "ClearAllForwardings=yes",
    "ForwardX11=no",
    "PermitLocalCommand=no",
    "ControlMaster=no",
    "StdinNull=no",
    "ForkAfterAuthentication=no",
)

_CONNECT_SECONDS = 10
#: How long ssh may take to read its configuration, seconds.
_CONFIG_SECONDS = 20.0
#: See :class:`.base.Engine`.
READS = ()


@dataclass(frozen=True)
class Ssh(Engine):
    """Runs jobs on other machines, through ssh.

    Attributes
    ----------
    hosts : sequence of Host
        The machines, filled in this order.
    """

    hosts: Sequence[Host] = ()

    def __post_init__(self) -> None:
        python = self.python
        if python.startswith("-") or any(ord(character) < 32 for character in python):
            raise LaunchError(
                "The Python of the hosts must be a path or the name of a command.",
                found=repr(python),
                fix="Give it with --remote-python, such as /opt/venv/bin/python.",
                reason="remote-python",
            )
        names = {host.name for host in self.hosts}
        for name, address in self.where.addresses.items():
            if name not in names or any(address_problems(f"{address}:1")):
                raise LaunchError(
                    "--address gives one of the hosts the name or address by which the others reach it.",
                    found=f"{name}={address}"[:200],
                    fix="Write it as HOST=ADDRESS, with a HOST of -H.",
                    reason="address",
                )

    @property
    def slots(self) -> int:
        """How many tasks the hosts take."""
        return sum(host.slots for host in self.hosts)

    def run(self, job: Job, *, show: str = "all", tell: bool = False) -> tuple[Run, Failure | None]:
        """See :class:`.base.Engine`. LaunchError has every host's problems at once."""
        where = self.where
        if where.copy:
            # What can't be sent is not to be missed there.
            script_to_send(Path(job.command[0]))
        tasks = place_tasks(job.sizes(), self.hosts)
        seconds = start_timeout(job.start_timeout)

        def once(attempt: Attempt) -> tuple[Run, Failure | None]:
            names = {host.name: self.names(host) for host in dict.fromkeys(host for *_, host in tasks)}
            places = [
                AgentPlace(kind, host.name, {"ssh": self.agent_command(host, seconds), "host": host.target})
                for kind, _, host in tasks
            ]
            remote_job = RemoteJob(job, attempt, where.copy, where.files)
            return run_remote(remote_job, places, names, show=show, tell=tell)

        return with_restarts(once, job.max_restarts, tell=show != "nothing")

    @property
    def python(self) -> str:
        """The Python to run on the hosts."""
        return self.where.remote_python or python_executable()

    def as_options(self) -> list[str]:
        """See :class:`.base.Engine`."""
        hosts = ",".join(
            f"{host.user}@{host.name}:{host.slots}" if host.user else f"{host.name}:{host.slots}"
            for host in self.hosts
        )
        options = ["--hosts", hosts, *replace(self.where, remote_python=self.python).sent_options()]
        if self.where.ssh_config is not None:
            options += ["--ssh-config", str(self.where.ssh_config)]
        return options + [f"--address={host}={address}" for host, address in self.where.addresses.items()]

    def ssh(self, *arguments: str) -> list[str]:
        """An argument list that runs ssh."""
        config = [] if self.where.ssh_config is None else ["-F", str(self.where.ssh_config)]
        return [_ssh(), *config, *arguments]

    def agent_command(self, host: Host, seconds: float) -> list[str]:
        """An argument list that starts an agent on a host."""
        # ssh must give up before its caller does, as it says why.
        options = [*_SSH_OPTIONS, f"ConnectTimeout={max(1, min(_CONNECT_SECONDS, int(seconds) - 2))}"]
        flags = [word for option in options for word in ("-o", option)]
        remote = [self.python, "-c", _START, *filter(None, [package_root()])]
        return self.ssh(*flags, "--", host.target, shlex.join(remote))

    def names(self, host: Host) -> list[str]:
        """By which names the others may know a host: as it was given, then as ssh knows it."""
        if host.name in self.where.addresses:
            return [self.where.addresses[host.name]]
        names = [host.name]
        for line in ask(*self.ssh("-G", "--", host.target), seconds=_CONFIG_SECONDS).output.splitlines():
            key, _, value = line.partition(" ")
            value = f"[{value}]" if ":" in value else value
            if key == "hostname" and value not in names and not any(address_problems(f"{value}:1")):
                names.append(value)
        return names


def of(where: Where) -> Engine:
    """The hosts through ssh, unless all of them are this machine.

    Raises
    ------
    LaunchError
        No hosts are named, or something of them makes no sense.
    """
    if where.hosts is None and where.hostfile is None:
        raise LaunchError(
            "The backend ssh must know the hosts.",
            found="none",
            fix="Name them: -H node1:2,node2:2, or --hostfile.",
            reason="hosts",
        )
    machines = named_hosts(where.hosts, where.hostfile)
    return ThisMachine(hosts=machines) if only_this_machine(machines) else Ssh(where, machines)


def available(seconds: float) -> str:
    """The version of ssh."""
    return version_of(find_program("ssh", "apt-get install openssh-client"), "-V", seconds=seconds).first_line


def parse_addresses(texts: Sequence[str]) -> dict[str, str]:
    """``HOST=ADDRESS``, as on the command line, each as an entry."""
    return {host: address for host, _, address in (text.partition("=") for text in texts)}


def _ssh() -> str:
    path = shutil.which("ssh")
    if path is None:
        raise LaunchError(
            "Hosts are reached through ssh.",
            found="no ssh on PATH",
            fix="Install it (Debian, Ubuntu: apt-get install openssh-client).",
            reason="ssh",
        )
    return path

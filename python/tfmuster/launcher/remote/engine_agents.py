"""Run a job through an engine that starts processes itself, such as Spark, Slurm or MPI.

Such an engine only starts agents, one for each task, and explains why they can't be started. Everything else
works as over ssh (:mod:`.run`): supervisor, run directory, restarts, files to send, texts of failures. To
write a new engine::

    class Mine:  # an AgentStarter
        where = Elsewhere(copy=True)  # whether the script is sent, and which files with it
        launcher_addresses = ()  # names of this machine, if the engine knows better ones

        def start(self, request: AgentRequest) -> StartedAgents:  # request.count agents, of rank 0, 1, ...
            ...  subprocess.Popen(request.command(python, rank=rank), env={**os.environ, **request.env})

    run, failure = run_placed(job, Mine(), show="all", tell=True)

`StartedAgents` has two methods. ``startup_error()`` is called repeatedly until all agents have connected.
``end()`` is called after the job, when agents end by themselves within about two seconds. If one command of
the engine starts all agents, name the variables with their rank: ``request.command(python,
rank_from=("A",))``. The engine must pass ``request.env`` to the agents in a way that other users can't read.

Each agent (:mod:`.call_home`) connects to a port of this process. Its rank determines its task, in the order
chief, workers, parameter servers, evaluator.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ...environment import TOKEN_VARIABLE, start_timeout
from ...errors import RendezvousError, TfmusterError
from ...net.addresses import is_loopback
from ...net.connections import Connection, Connections
from ...net.ports import listen
from ...options.hints import Hint
from ...options.table import Elsewhere
from ...system.interpreter import package_root
from ...tracking.failure.failure import Failure
from ...tracking.run import Run
from ...words import Words
from ..job import Job
from ..supervise.restarts import Attempt, with_restarts
from .agents.call_home import KEY_PURPOSE, host_names
from .files import files_to_send
from .proxies.proxy_process import AgentPlace
from .run import RemoteJob, run_remote

# If the hosts share a checkout that is not installed, it is found.
_START = (
    "import sys; root = sys.argv.pop(1); sys.path += [root] if root else []; "
    "from tfmuster.launcher.remote.agents.call_home import main; main()"
)
_LOOK_SECONDS = 0.2


@dataclass(frozen=True)
class AgentRequest:
    """The agents that an engine must start.

    Attributes
    ----------
    job : str
        The name of this attempt, in letters and digits.
    count : int
        Number of agents.
    launcher_addresses : tuple of str
        Addresses of this process, as ``host:port``.
    seconds : float
        Time limit for all agents to connect, in seconds.
    env : dict
        Environment variables of the agents. They contain the job's secret, so never put them on a command
        line.
    """

    job: str
    count: int
    launcher_addresses: tuple[str, ...]
    seconds: float
    env: dict[str, str]

    def command(
        self,
        python: str,
        *,
        rank: int | None = None,
        rank_from: Sequence[str] = (),
        gpus: str | None = None,
    ) -> list[str]:
        """Return an argument list that starts an agent.

        Parameters
        ----------
        python : str
            Path of a Python that has tfmuster.
        rank : int, optional
            Rank of the agent.
        rank_from : sequence of str
            Names of variables that have the rank instead. The first that is set counts.
        gpus : str, optional
            GPUs that only this agent may use, as for ``CUDA_VISIBLE_DEVICES``.
        """
        command = [python, "-c", _START, package_root() or ""]
        command += ["--home", ",".join(self.launcher_addresses), "--seconds", f"{self.seconds:g}"]
        if rank is not None:
            command += ["--rank", str(rank)]
        if rank_from:
            command += ["--rank-from", ",".join(rank_from)]
        return command if gpus is None else [*command, f"--gpus={gpus}"]


class StartedAgents(Protocol):
    """Agents that an engine has started or is starting."""

    def startup_error(self) -> TfmusterError | None:
        """Return the error that keeps agents from starting, as soon as it is known; otherwise None."""

    def end(self) -> None:
        """End the remaining agents after the job, and what the engine has started itself."""


class AgentStarter(Protocol):
    """An engine that starts agents."""

    @property
    def where(self) -> Elsewhere:
        """The user's settings: whether to send the script to the agents, and which files."""

    @property
    def launcher_addresses(self) -> Sequence[str]:
        """Names or addresses of this machine for the agents; if empty, all that it has."""

    def start(self, call: AgentRequest) -> StartedAgents:
        """Start agents, without waiting for them.

        Raises
        ------
        TfmusterError
            If they can't be started.
        """


@dataclass(frozen=True)
class _Caller:
    """An agent that has connected."""

    connection: Connection
    host: str
    address: str
    names: tuple[str, ...]
    own_gpus: bool


def run_placed(job: Job, starter: AgentStarter, *, show: str, tell: bool) -> tuple[Run, Failure | None]:
    """Run a job to its end. Return the run, and the first failure of its last attempt.

    Raises
    ------
    LaunchError
        If an agent can't be started, or its host can't take part.
    RendezvousError
        If not all agents connect in time.
    """

    def once(attempt: Attempt) -> tuple[Run, Failure | None]:
        remote_job = RemoteJob(job, attempt, starter.where, secret=False)
        # Report files that can't be sent before anything starts.
        remote_job.question()
        files_to_send(starter.where.files)
        with _gathered(remote_job, starter) as (places, names):
            return run_remote(remote_job, places, names, show=show, tell=tell)

    return with_restarts(once, job.max_restarts, tell=show != "nothing")


@contextlib.contextmanager
def _gathered(
    remote_job: RemoteJob, starter: AgentStarter
) -> Iterator[tuple[list[AgentPlace], dict[str, list[str]]]]:
    """Yield the agents that the engine has started, with their connections, and the names of their hosts."""
    kinds = [kind for kind, size in remote_job.job.sizes().items() for _ in range(size)]
    seconds = start_timeout(remote_job.job.start_timeout)
    attempt = remote_job.attempt
    # All agents may connect at the same time, and a few other programs, too.
    connections = Connections(token=attempt.token, pending_limit=len(kinds) + 64)
    sockets: list[socket.socket] = []
    started: StartedAgents | None = None
    try:
        hosts = tuple(starter.launcher_addresses) or ("127.0.0.1", *host_names())
        listener = _listener(hosts)
        connections.listen(listener, {"type": "challenge"})
        launcher_addresses = tuple(f"{host}:{listener.getsockname()[1]}" for host in hosts)
        started = starter.start(
            AgentRequest(
                attempt.name, len(kinds), launcher_addresses, seconds, {TOKEN_VARIABLE: attempt.token}
            )
        )
        callers = _wait_for_all(connections, started, kinds, seconds)
        connections.stop_listening()
        places = []
        for rank, kind in enumerate(kinds):
            caller = callers[rank]
            caller.connection.send({"type": "welcome"})
            key = caller.connection.channel.key(KEY_PURPOSE).hex()
            try:
                made = connections.release(caller.connection)
            except OSError:
                del callers[rank]
                raise _not_all(kinds, callers, {rank: caller.host}, set(), seconds) from None
            sockets.append(made)
            link = {"socket": made.fileno(), "key": key, "host": caller.host}
            places.append(AgentPlace(kind, caller.host, link, (made,), caller.own_gpus))
        names = {
            caller.host: list(dict.fromkeys((caller.address, *caller.names))) for caller in callers.values()
        }
        yield places, names
    finally:
        for each in sockets:
            each.close()
        connections.close()
        if started is not None:
            started.end()


def _listener(hosts: Sequence[str]) -> socket.socket:
    """Listen on a free port: on all interfaces, unless all agents are on this machine."""
    if all(is_loopback(f"{host}:1") for host in hosts):
        made = socket.create_server(("127.0.0.1", 0), backlog=4096)
        made.setblocking(False)
        return made
    return listen(0)


def _wait_for_all(
    connections: Connections, started: StartedAgents, kinds: Sequence[str], seconds: float
) -> dict[int, _Caller]:
    """Wait until all agents have connected, and return them by rank."""
    callers: dict[int, _Caller] = {}
    left: dict[int, str] = {}
    strangers: set[str] = set()
    end = time.monotonic() + seconds
    while len(callers) < len(kinds):
        if error := started.startup_error():
            raise error
        if time.monotonic() > end:
            raise _not_all(kinds, callers, left, strangers, seconds)
        for connection, message in connections.poll(_LOOK_SECONDS):
            if message is None:
                gone = [rank for rank, caller in callers.items() if caller.connection is connection]
                left |= {rank: callers.pop(rank).host for rank in gone}
                if not gone:
                    strangers.add(connection.host)
                continue
            rank = int(message.get("rank", -1))
            if message.get("type") != "here" or rank not in range(len(kinds)) or rank in callers:
                connections.end(connection, "not expected", tell=False)
                continue
            connections.keep(connection)
            callers[rank] = _caller(connection, message)
    return callers


def _caller(connection: Connection, message: dict[str, Any]) -> _Caller:
    return _Caller(
        connection,
        str(message["host"]),
        str(message["address"]),
        tuple(map(str, message["names"])),
        bool(message["own_gpus"]),
    )


def _not_all(
    kinds: Sequence[str],
    callers: dict[int, _Caller],
    left: dict[int, str],
    strangers: set[str],
    seconds: float,
) -> RendezvousError:
    """Make the error that names the agents that have not connected."""
    tasks = [f"{kind} {kinds[:rank].count(kind)}" for rank, kind in enumerate(kinds)]
    missing = [task for rank, task in enumerate(tasks) if rank not in callers]
    found = [f"nothing from {', '.join(missing)}"]
    found += [f"{tasks[rank]} had called from {host}, and ended" for rank, host in left.items()]
    if callers:
        there = (f"{tasks[rank]} on {caller.host}" for rank, caller in sorted(callers.items()))
        found.append(f"there are: {', '.join(there)}")
    if strangers:
        found.append(f"{', '.join(sorted(strangers))} called without the job's secret")
    return RendezvousError(
        f"Not all of the {len(kinds)} agents have called within {seconds:g} s.",
        found="\n         ".join(found),
        fix=Words(
            "Check that there is room for all of them, that their hosts can reach this machine, and what the "
            "engine's log says. To wait longer, set {}.",
            Hint("start_timeout"),
        ),
        reason="agents",
        missing=missing,
        timeout=seconds,
    )

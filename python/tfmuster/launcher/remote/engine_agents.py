"""Run a job through an engine that starts processes itself, such as Spark, Slurm or MPI.

Such an engine only starts agents, one for each task, and explains why they can't be started. Everything else
works as over ssh (:mod:`.run`): supervisor, run directory, restarts, files to send, texts of failures. To
write a new engine::

    def start(request: AgentRequest) -> StartedAgents:  # request.count agents, of rank 0, 1, ...
        ...  subprocess.Popen(request.command(python, rank=rank), env={**os.environ, **request.env})

    run, failure = run_with_agents(job, Elsewhere(copy=True), start, show="all", tell=True)

The engine must pass ``request.env`` to the agents in a way that other users can't read. If one command starts
all agents, name the variables with their rank: ``request.command(python, rank_from=("A",))``. The function
must not wait for the agents, and raises TfmusterError if they can't be started.

Each agent (:mod:`.agents.call_home`) connects to a port of this process. Its rank determines its task, in the
order chief, workers, parameter servers, evaluator.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ...environment import TOKEN_VARIABLE, start_timeout
from ...errors import RendezvousError, TfmusterError
from ...net.addresses import is_loopback
from ...net.connections import Connection, Connections
from ...net.ports import listen
from ...options.hints import Hint
from ...options.places import Elsewhere
from ...tracking.failure.failure import Failure
from ...tracking.run import Run
from ...words import Words
from ..job import Job
from ..supervise.restarts import Attempt, with_restarts
from .agents.call_home import KEY_PURPOSE, host_names
from .proxy_process import AgentPlace
from .run import RemoteJob, agent_command, run_remote

_LOOK_SECONDS = 0.2


@dataclass(frozen=True)
class AgentRequest:
    """The agents that an engine must start."""

    #: The name of this attempt, in letters and digits.
    job: str
    count: int
    #: As ``host:port``.
    launcher_addresses: tuple[str, ...]
    #: Time limit for all agents to connect.
    seconds: float
    #: Contains the job's secret, so never put it on a command line.
    env: dict[str, str]

    def command(self, python: str, *, rank: int | None = None, rank_from: Sequence[str] = ()) -> list[str]:
        """Return an argument list that starts an agent.

        `python` has tfmuster. The agent's rank is `rank`, or that in the first variable of `rank_from` that
        is set. An engine may add ``--gpus`` and ``--address``; see :mod:`.agents.call_home`.
        """
        command = agent_command(python, "call_home")
        command += ["--home", ",".join(self.launcher_addresses), "--seconds", f"{self.seconds:g}"]
        if rank is not None:
            command += ["--rank", str(rank)]
        if rank_from:
            command += ["--rank-from", ",".join(rank_from)]
        return command


class StartedAgents(Protocol):
    """Agents that an engine has started or is starting."""

    def startup_error(self) -> TfmusterError | None:
        """Return why agents can't start, or None. Called repeatedly until all agents have connected."""

    def end(self) -> None:
        """End agents that do not end by themselves within about two seconds after the job."""


@dataclass(frozen=True)
class _Caller:
    """An agent that has connected."""

    connection: Connection
    host: str
    names: tuple[str, ...]
    own_gpus: bool


def run_with_agents(
    job: Job,
    where: Elsewhere,
    start: Callable[[AgentRequest], StartedAgents],
    *,
    launcher_addresses: Sequence[str] = (),
    show: str,
    tell: bool,
) -> tuple[Run, Failure | None]:
    """Run a job to its end. Return the run, and the first failure of its last attempt.

    `launcher_addresses` are names of this machine for the agents. Default: all that it has. Raises
    LaunchError if an agent can't be started or its host can't take part, and RendezvousError if not all
    agents connect in time.
    """
    hosts = tuple(launcher_addresses) or ("127.0.0.1", *host_names())

    def once(attempt: Attempt) -> tuple[Run, Failure | None]:
        remote_job = RemoteJob(job, attempt, where, secret=False)
        # Report files that can't be sent before anything starts.
        remote_job.question()
        remote_job.files()
        with _connected_agents(remote_job, start, hosts) as (places, names):
            return run_remote(remote_job, places, names, show=show, tell=tell)

    return with_restarts(once, job.max_restarts, tell=show != "nothing")


@contextlib.contextmanager
def _connected_agents(
    remote_job: RemoteJob, start: Callable[[AgentRequest], StartedAgents], hosts: Sequence[str]
) -> Iterator[tuple[list[AgentPlace], dict[str, list[str]]]]:
    """Yield the agents that the engine has started, with their connections, and the names of their hosts."""
    kinds, attempt = remote_job.job.kinds, remote_job.attempt
    seconds = start_timeout(remote_job.job.start_timeout)
    # All agents may connect at the same time, and a few other programs, too.
    connections = Connections(token=attempt.token, pending_limit=len(kinds) + 64)
    places: list[AgentPlace] = []
    started: StartedAgents | None = None
    try:
        listener = _listener(hosts)
        connections.listen(listener, {"type": "challenge"})
        addresses = tuple(f"{host}:{listener.getsockname()[1]}" for host in hosts)
        env = {TOKEN_VARIABLE: attempt.token}
        started = start(AgentRequest(attempt.name, len(kinds), addresses, seconds, env))
        callers = _wait_for_all(connections, started, kinds, seconds)
        connections.stop_listening()
        for rank, kind in enumerate(kinds):
            caller = callers[rank]
            caller.connection.send({"type": "welcome"})
            key = caller.connection.channel.key(KEY_PURPOSE).hex()
            try:
                agent_socket = connections.release(caller.connection)
            except OSError:
                del callers[rank]
                raise _not_all(kinds, callers, {rank: caller.host}, set(), seconds) from None
            link = {"socket": agent_socket.fileno(), "key": key, "host": caller.host}
            places.append(AgentPlace(kind, caller.host, link, agent_socket, caller.own_gpus))
        yield places, {caller.host: list(dict.fromkeys(caller.names)) for caller in callers.values()}
    finally:
        for place in places:
            if place.agent_socket is not None:
                place.agent_socket.close()
        connections.close()
        if started is not None:
            started.end()


def _listener(hosts: Sequence[str]) -> socket.socket:
    """Listen on a free port: on all interfaces, unless all agents are on this machine."""
    if all(is_loopback(f"{host}:1") for host in hosts):
        listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        listener.setblocking(False)
        return listener
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
            names = tuple(map(str, (message["address"], *message["names"])))
            callers[rank] = _Caller(connection, str(message["host"]), names, bool(message["own_gpus"]))
    return callers


def _not_all(
    kinds: Sequence[str],
    callers: Mapping[int, _Caller],
    left: Mapping[int, str],
    strangers: set[str],
    seconds: float,
) -> RendezvousError:
    """Make the error that names the agents that have not connected."""
    tasks = [f"{kind} {kinds[:rank].count(kind)}" for rank, kind in enumerate(kinds)]
    missing = [task for rank, task in enumerate(tasks) if rank not in callers]
    facts = [f"nothing from {', '.join(missing)}"]
    facts += [f"{tasks[rank]} had called from {host}, and ended" for rank, host in left.items()]
    if callers:
        there = (f"{tasks[rank]} on {caller.host}" for rank, caller in sorted(callers.items()))
        facts.append(f"there are: {', '.join(there)}")
    if strangers:
        facts.append(f"{', '.join(sorted(strangers))} called without the job's secret")
    return RendezvousError(
        f"Not all of the {len(kinds)} agents have called within {seconds:g} s.",
        found="\n         ".join(facts),
        fix=Words(
            "Check that there is room for all of them, that their hosts can reach this machine, and what the "
            "engine's log says. To wait longer, set {}.",
            Hint("start_timeout"),
        ),
        reason="agents",
        missing=missing,
        timeout=seconds,
    )

"""Run a job by an engine that starts processes itself, such as Spark, Slurm or MPI.

An engine only says how agents are started, one for each task, and what it means if they can't be. Everything
else is as over ssh (:mod:`.run`): supervisor, run directory, restarts, files that are sent along, texts of
failures. This is how a new one is made::

    class Mine:                                        # a Placer
        copy, files = True, ()                         # whether scripts are sent along, and what besides
        homes = ()                                     # names of this machine, if the engine knows better

        def start(self, call: Call) -> Started:        # `call.count` agents, of rank 0, 1 and so on
            ...  subprocess.Popen(call.command(python, rank=rank), env={**os.environ, **call.env})

    run, failure = run_placed(job, Mine(), show="all", tell=True)

`Started` has ``trouble()``, which is asked again and again until all agents have called, and ``end()``, for
when the job is over: agents end by themselves then, within about two seconds. An engine whose one command
starts all of them names the variables that tell each its rank: ``call.command(python, rank_from=("A",))``.
The variables of ``call.env`` must reach the agents by a way of the engine's own that others can't read.

Each agent (:mod:`.call_home`) calls this process on a port that is open for this. Which task it gets follows
from its rank: chief, workers, parameter servers, evaluator, in this order.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Protocol

from ...environment import start_timeout
from ...errors import RendezvousError, TfmusterError
from ...net.addresses import is_loopback
from ...net.connections import Hub, Line
from ...net.ports import listen
from ...runs.failure import Failure
from ...runs.run import Run
from ...system.interpreter import package_root
from ..job import LocalJob
from ..supervise.restarts import Attempt, with_restarts
from .call_home import KEY_PURPOSE, TOKEN, own_names
from .files import files_to_send
from .run import Errand, Place, run_remote

# A checkout that is not installed is found there if the hosts share it.
_START = (
    "import sys; root = sys.argv.pop(1); sys.path += [root] if root else []; "
    "from tfmuster.launch.remote.call_home import main; main()"
)
_LOOK_SECONDS = 0.2


@dataclass(frozen=True)
class Call:
    """What an engine is to start.

    Attributes
    ----------
    job : str
        The name of this attempt, in letters and digits.
    count : int
        How many agents.
    homes : tuple of str
        Where they find this process, as ``host:port``.
    seconds : float
        How long they may take to come.
    env : dict
        What has to be in their environment. It has the job's secret: not on a command line.
    """

    job: str
    count: int
    homes: tuple[str, ...]
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
        """An argument list that starts an agent.

        Parameters
        ----------
        python : str
            The Python to run it, one that has tfmuster.
        rank : int, optional
            Which agent it is.
        rank_from : sequence of str
            Names of variables that may say so instead; the first that is set counts.
        gpus : str, optional
            GPUs that are this agent's alone, as for ``CUDA_VISIBLE_DEVICES``.
        """
        command = [python, "-c", _START, package_root() or ""]
        command += ["--home", ",".join(self.homes), "--seconds", f"{self.seconds:g}"]
        if rank is not None:
            command += ["--rank", str(rank)]
        if rank_from:
            command += ["--rank-from", ",".join(rank_from)]
        return command if gpus is None else [*command, f"--gpus={gpus}"]


class Started(Protocol):
    """Agents that an engine was asked to start."""

    def trouble(self) -> TfmusterError | None:
        """Why not all of them will come, as soon as that is known."""

    def end(self) -> None:
        """The job is over: end what is left of them, and the engine's own part."""


class Placer(Protocol):
    """An engine that starts agents."""

    @property
    def copy(self) -> bool:
        """Whether a script is sent along, instead of being at the same place on every machine."""

    @property
    def files(self) -> Sequence[str | PathLike[str]]:
        """Files and folders to send along, and the script with them."""

    @property
    def homes(self) -> Sequence[str]:
        """By which names or addresses the agents find this machine; none: all that it knows of itself."""

    def start(self, call: Call) -> Started:
        """Start agents, and return without waiting for them.

        Raises
        ------
        TfmusterError
            They can't be started.
        """


@dataclass(frozen=True)
class _Caller:
    """An agent that has called."""

    line: Line
    host: str
    address: str
    names: tuple[str, ...]
    own_gpus: bool


def run_placed(job: LocalJob, placer: Placer, *, show: str, tell: bool) -> tuple[Run, Failure | None]:
    """Run a job to its end; its run directory, and the first failure of its last attempt.

    Raises
    ------
    LaunchError
        An agent can't be started, or its host can't take part.
    RendezvousError
        Not all agents have called in time.
    """

    def once(attempt: Attempt) -> tuple[Run, Failure | None]:
        errand = Errand(job, attempt, placer.copy, placer.files, secret=False)
        # What can't be sent is said before anything starts.
        errand.question()
        files_to_send(placer.files)
        with _gathered(errand, placer) as (places, names):
            return run_remote(errand, places, names, show=show, tell=tell)

    return with_restarts(once, job.max_restarts, tell=show != "nothing")


@contextlib.contextmanager
def _gathered(errand: Errand, placer: Placer) -> Iterator[tuple[list[Place], dict[str, list[str]]]]:
    """The agents that the engine has started, each on its connection, and the names of their hosts."""
    kinds = [kind for kind, size in errand.job.sizes().items() for _ in range(size)]
    seconds = start_timeout(errand.job.start_timeout)
    attempt = errand.attempt
    # All that are to come may come at once, and a few strangers with them.
    hub = Hub(token=attempt.token, pending_limit=len(kinds) + 64)
    sockets: list[socket.socket] = []
    started: Started | None = None
    try:
        hosts = tuple(placer.homes) or ("127.0.0.1", *own_names())
        listener = _listener(hosts)
        hub.listen(listener, {"type": "challenge"})
        homes = tuple(f"{host}:{listener.getsockname()[1]}" for host in hosts)
        started = placer.start(Call(attempt.name, len(kinds), homes, seconds, {TOKEN: attempt.token}))
        callers = _wait_for_all(hub, started, kinds, seconds)
        hub.stop_listening()
        places = []
        for rank, kind in enumerate(kinds):
            caller = callers[rank]
            caller.line.send({"type": "welcome"})
            key = caller.line.channel.key(KEY_PURPOSE).hex()
            try:
                made = hub.release(caller.line)
            except OSError:
                del callers[rank]
                raise _not_all(kinds, callers, {rank: caller.host}, set(), seconds) from None
            sockets.append(made)
            link = {"socket": made.fileno(), "key": key, "host": caller.host}
            places.append(Place(kind, caller.host, link, (made,), caller.own_gpus))
        names = {
            caller.host: list(dict.fromkeys((caller.address, *caller.names))) for caller in callers.values()
        }
        yield places, names
    finally:
        for each in sockets:
            each.close()
        hub.close()
        if started is not None:
            started.end()


def _listener(hosts: Sequence[str]) -> socket.socket:
    """A listener on a free port, of all interfaces unless all agents are on this machine."""
    if all(is_loopback(f"{host}:1") for host in hosts):
        made = socket.create_server(("127.0.0.1", 0), backlog=4096)
        made.setblocking(False)
        return made
    return listen(0)


def _wait_for_all(hub: Hub, started: Started, kinds: Sequence[str], seconds: float) -> dict[int, _Caller]:
    """The agents by their ranks, as soon as all have called."""
    callers: dict[int, _Caller] = {}
    left: dict[int, str] = {}
    strangers: set[str] = set()
    end = time.monotonic() + seconds
    while len(callers) < len(kinds):
        if trouble := started.trouble():
            raise trouble
        if time.monotonic() > end:
            raise _not_all(kinds, callers, left, strangers, seconds)
        for line, message in hub.poll(_LOOK_SECONDS):
            if message is None:
                gone = [rank for rank, caller in callers.items() if caller.line is line]
                left |= {rank: callers.pop(rank).host for rank in gone}
                if not gone:
                    strangers.add(line.host)
                continue
            rank = int(message.get("rank", -1))
            if message.get("type") != "here" or rank not in range(len(kinds)) or rank in callers:
                hub.end(line, "not expected", tell=False)
                continue
            hub.keep(line)
            callers[rank] = _caller(line, message)
    return callers


def _caller(line: Line, message: dict[str, Any]) -> _Caller:
    return _Caller(
        line,
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
    """Who has not called."""
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
        fix="See that there is room for all of them, that their hosts can reach this machine, and what the "
        "engine's log says; --start-timeout waits longer.",
        reason="agents",
        missing=missing,
        timeout=seconds,
    )

"""Run a job on other machines: each worker has an agent there and a proxy process here.

The engines and :mod:`.engine_agents` start the agents and make the connections. The launcher first asks all
agents for their versions, their program and a free port. If there are no problems, it makes the cluster from
the answers, and starts each worker on the same connection.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from ...cluster.spec import Cluster, Task
from ...cluster.tf_config import task_variables
from ...environment import (
    DEFAULT_SECONDS,
    ERROR_FILE_VARIABLE,
    FULL_WORKERS_VARIABLE,
    KERAS_COMPAT_VARIABLE,
    OF_ONE_WORKER,
    PREFIX,
    SSH_CONFIG_VARIABLE,
    START_TIMEOUT_VARIABLE,
    TOKEN_VARIABLE,
    start_timeout,
)
from ...options.places import Elsewhere
from ...system.interpreter import package_root
from ...system.processes import end_job
from ...system.say import say
from ...system.terminal_text import visible
from ...tracking.failure.failure import Failure
from ...tracking.record.layout import RESTARTING, file_stem, read_json
from ...tracking.run import Run
from ...words import face
from ..job import Job, begin_run
from ..supervise.restarts import Attempt
from ..supervise.supervisor import Supervisor
from ..supervise.worker_process import Placement, remote_path
from .files import SCRIPTS, files_to_continue, files_to_send, script_to_send
from .host_checks import clock_warnings, hosts_error, peer_names
from .proxy_process import AgentPlace, ProxyProcess, SpareAgents, end_proxies, run_mark

#: Names of the launcher's variables that are sent to the hosts.
PASSED = (PREFIX, "TF_", "KERAS_", "JAX_", "XLA_", "NCCL_", "GRPC_")
#: Variables of one job, machine or process, which are not sent.
_NOT_PASSED = OF_ONE_WORKER | {FULL_WORKERS_VARIABLE, SSH_CONFIG_VARIABLE, KERAS_COMPAT_VARIABLE}


#: If the hosts share a checkout that is not installed, it is found. The directory where a login or an engine
#: starts a program, such as the home directory, must not be on the import path.
_START = (
    "import sys; root = sys.argv.pop(1); sys.path = [p for p in sys.path if p] + [root] * bool(root); "
    "from tfmuster.launcher.remote.agents.{} import main; main()"
)


def agent_command(python: str, module: str) -> list[str]:
    """Return an argument list that starts an agent by a module of :mod:`.agents`. `python` has tfmuster."""
    return [python, "-c", _START.format(module), package_root() or ""]


@dataclass(frozen=True)
class RemoteJob:
    """One attempt of a job on other machines."""

    job: Job
    attempt: Attempt
    #: Whether to send the script, and which files with it.
    where: Elsewhere
    #: Whether nobody else can read what is sent over the connections.
    secret: bool = True
    #: Whether the job may continue with fewer workers than it is to have, and the same batches.
    may_shrink: bool = False

    def question(self) -> dict[str, Any]:
        """Return the question for every agent."""
        script = self.script()
        return {
            "command": list(self.job.command),
            # Files are sent to a separate folder.
            "directory": None if self.where.copy or self.where.files else os.getcwd(),
            "script": script and script[1],
            "fetch_limit": self.where.fetch_limit,
            "face": face(),
        }

    def script(self) -> tuple[str, str] | None:
        """Return the path of the script, and its name at the destination; None if it is not sent."""
        path = Path(self.job.command[0])
        is_sent = (self.where.copy or self.where.files) and path.suffix.lower() in SCRIPTS
        return script_to_send(path) if is_sent else None

    def tasks_to_carry(self, places: Sequence[AgentPlace]) -> Mapping[str, int]:
        """Return the number of tasks on each host that must be able to carry them.

        A restart comes too late to refuse, and other engines than ssh choose the places themselves.
        """
        if self.attempt.number or getattr(self.where, "oversubscribe", True):
            return {}
        return Counter(place.host for place in places)

    def files(self) -> list[tuple[str, str]]:
        """Return the files to send. Raises LaunchError if one can't be sent."""
        return files_to_send(self.where.files)

    @cached_property
    def variables(self) -> dict[str, str]:
        """The variables that all workers get."""
        variables = {
            name: value
            for name, value in os.environ.items()
            if name.startswith(PASSED) and name not in _NOT_PASSED
        }
        variables |= self.job.variables(self.attempt)
        if self.may_shrink:
            variables[FULL_WORKERS_VARIABLE] = str(self.job.workers)
        if not self.secret:
            # The agent already has the token.
            del variables[TOKEN_VARIABLE]
        return variables

    def for_agent(self, task: Task, run: Run) -> dict[str, Any]:
        """Return what a worker's agent needs to start it."""
        return {"env": {**self.variables, **task_variables(task, self.variables)}, **run_mark(run)}

    def placement(self, task: Task, run: Run, remote: ProxyProcess) -> Placement:
        """Return a worker's placement, for the supervisor."""
        note_path = str(run.path / "logs" / f"{file_stem(task.name)}.error.json")
        limit = self.variables.get(START_TIMEOUT_VARIABLE, str(DEFAULT_SECONDS))
        return Placement(
            task.name,
            task.is_chief,
            tuple(self.job.command),
            {START_TIMEOUT_VARIABLE: limit, ERROR_FILE_VARIABLE: note_path},
            host=remote.host,
            cores=remote.hello()["capacity"]["cores"],
            start=partial(remote.start, {"job": self.for_agent(task, run), "note_path": note_path}),
        )

    def spare(self, place: AgentPlace, task: Task, run: Run, remote: ProxyProcess, name: str) -> ProxyProcess:
        """Start another agent like the one of a worker's proxy, which waits; `name` is that of its job."""
        # The script may have changed when it is needed.
        files = [*self.files(), *filter(None, [self.script()])]
        spare = ProxyProcess.asked(name, place, remote.order, files)
        spare.warm(self.for_agent(task, run))
        return spare


def run_remote(
    remote_job: RemoteJob,
    places: Sequence[AgentPlace],
    names: Mapping[str, list[str]],
    *,
    show: str,
    tell: bool,
    new_hosts: Callable[[], str] = str,
    spares: SpareAgents | None = None,
) -> tuple[Run, Failure | None]:
    """Run one attempt of a job. Return the run, and its first failure.

    `places` has the place of each task, in the order of the cluster, and `names` the names by which other
    hosts may know each host, the best first. `show` and `tell` are those of engines, `new_hosts` is that of
    `PreemptionOrders`. `spares` wait to become the agents of this attempt, and those of the next one.

    Raises LaunchError, with the problems of all hosts, if one can't take part.
    """
    attempt = remote_job.attempt
    with _connected(remote_job, places, names, spares) as (cluster, remotes, warnings):
        run = begin_run(remote_job.job, attempt, cluster)
        if tell and attempt.number == 0:
            hosts = ", ".join(dict.fromkeys(remote.host for remote in remotes))
            count = "1 task" if len(remotes) == 1 else f"{len(remotes)} tasks"
            about = f"{count} on {hosts}; run directory {os.path.relpath(run.path)}"
            for line in (about, *warnings):
                say(f"tfmuster: {line}")
        tasks = list(zip(places, cluster.tasks(), remotes, strict=True))
        for _, task, remote in tasks:
            if task.is_chief and (files := files_to_continue(run.path, task.name)):
                remote.send_run(run, files)
        placements = [remote_job.placement(task, run, remote) for _, task, remote in tasks]
        if spares is not None:
            spares.plan(
                [partial(remote_job.spare, place, task, run, remote) for place, task, remote in tasks]
            )
        supervisor = Supervisor(attempt, run, placements, show=show, new_hosts=new_hosts, spares=spares)
        try:
            return run, supervisor.supervise()
        finally:
            if tell:
                _say_where_files_are(placements, restarts=run.status()["state"] == RESTARTING)


def _say_where_files_are(placements: Sequence[Placement], *, restarts: bool) -> None:
    """Say which host has files of the program that are not here.

    Before a restart, that is said of a folder which the next attempt does not use.
    """
    for placement in placements:
        record = read_json(remote_path(Path(placement.env[ERROR_FILE_VARIABLE])))
        if not placement.is_chief or not (folder := record.get("folder")):
            continue
        place = f"on {placement.host}, in {visible(folder)}"
        if record.get("own"):
            say(f"tfmuster: files of the program that have not come back may be {place}")
        elif not restarts:
            say(f"tfmuster: files that the program wrote into its working directory are {place}")


@contextlib.contextmanager
def _connected(
    remote_job: RemoteJob,
    places: Sequence[AgentPlace],
    names: Mapping[str, list[str]],
    spares: SpareAgents | None,
) -> Iterator[tuple[Cluster, list[ProxyProcess], list[str]]]:
    """Yield the cluster, a waiting proxy for each task, and warnings. Leave no process, here or on hosts."""
    name = remote_job.attempt.name
    question = {**remote_job.question(), "names": dict(names)}
    files = remote_job.files()
    seconds = start_timeout(remote_job.job.start_timeout)
    remotes: list[ProxyProcess] = []
    taken: list[ProxyProcess] = []
    try:
        if spares is not None:
            spares.check()
        for place in places:
            gpus = {**_share_of(place, places), "per_worker": remote_job.job.gpus_per_worker}
            ask = {**question, "host": place.host, "gpus": gpus}
            order = {"seconds": seconds, "ask": ask, "script": remote_job.script()}
            remote = None if spares is None else spares.take_for({**place.link, **order})
            if remote is None:
                remote = ProxyProcess.asked(name, place, order, files)
            else:
                taken.append(remote)
            remotes.append(remote)
        by_host: dict[str, dict[str, Any]] = {}
        hellos = [remote.hello() for remote in remotes]
        for place, hello in zip(places, hellos, strict=True):
            # One of several connections to the same host may have failed.
            if "fault" not in by_host.get(place.host, {}):
                by_host[place.host] = hello
        if error := hosts_error(by_host, names, remote_job.tasks_to_carry(places)):
            if spares is not None:
                # For another try without the hosts that can't take part.
                spares.give_back(taken)
                remotes = [remote for remote in remotes if remote not in taken]
            raise error
        reached = peer_names(by_host, names)
        addresses: dict[str, list[str]] = {}
        for place, hello in zip(places, hellos, strict=True):
            addresses.setdefault(place.kind, []).append(f"{reached[place.host]}:{hello['port']}")
        yield Cluster(**addresses), remotes, clock_warnings(by_host)
    except KeyboardInterrupt:
        end_job(name, grace=0.0)
        raise
    finally:
        end_proxies(remotes)
        if not (spares and spares.waits_for(name)):
            end_job(name, grace=0.0)


def _share_of(place: AgentPlace, places: Sequence[AgentPlace]) -> dict[str, Any]:
    """Return the tasks that share the GPUs that an agent sees, and the agent's position among them."""
    here = [place] if place.own_gpus else [other for other in places if other.host == place.host]
    number = next(at for at, other in enumerate(here) if other is place)
    return {"kinds": [other.kind for other in here], "place": number}

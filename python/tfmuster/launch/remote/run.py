"""A job on other machines: each worker has an agent there, and a process here that stands in for it.

How the agents come to be, and what carries the connections to them, is for the engines and :mod:`.gather`.
All agents are asked first (is tfmuster there, and the program, which port is free); if nothing is wrong, the
cluster is made of their answers, and each worker is started on the connection that was used for asking.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from ...cluster.spec import Cluster, Task
from ...cluster.tf_config import tf_config_json
from ...environment import (
    ERROR_FILE_VARIABLE,
    JOB_VARIABLE,
    KERAS_COMPAT_VARIABLE,
    PREFIX,
    RUN_DIR_VARIABLE,
    SSH_CONFIG_VARIABLE,
    TOKEN_VARIABLE,
    start_timeout,
)
from ...runs.failure import Failure
from ...runs.layout import file_stem
from ...runs.lifecycle import record_git
from ...runs.run import Run
from ...system.interpreter import python_executable, with_tfmuster_on_path
from ...system.processes import end_job
from ..job import Job
from ..supervise.restarts import Attempt
from ..supervise.supervisor import Supervisor
from ..supervise.time_limits import REMOTE
from ..supervise.worker_process import Placement
from .files import SCRIPTS, files_to_send, script_to_send
from .host_checks import clock_warnings, hosts_error, peer_names

#: Names of variables that go along to the hosts; all others are the hosts' own.
PASSED = (PREFIX, "TF_", "KERAS_", "XLA_", "NCCL_", "GRPC_")
#: What belongs to one machine or one process.
_NOT_PASSED = (
    JOB_VARIABLE,
    RUN_DIR_VARIABLE,
    ERROR_FILE_VARIABLE,
    TOKEN_VARIABLE,
    SSH_CONFIG_VARIABLE,
    KERAS_COMPAT_VARIABLE,
)


@dataclass(frozen=True)
class RemoteJob:
    """What is to be done on the other machines.

    Attributes
    ----------
    job : LocalJob
        What to run.
    attempt : Attempt
        Which of its starts this is.
    copy : bool
        Whether the script, if it is one, is sent along, instead of being there already.
    files : sequence of path
        Files and folders to send along, and the script with them.
    secret : bool
        Whether nobody else can read what goes over the connections.
    """

    job: Job
    attempt: Attempt
    copy: bool = False
    files: Sequence[str | os.PathLike[str]] = ()
    secret: bool = True

    def question(self) -> dict[str, Any]:
        """What every agent is asked."""
        script = self.script()
        return {
            "command": list(self.job.command),
            # What is sent goes to a folder of its own.
            "directory": None if self.copy or self.files else os.getcwd(),
            "script": script and script[1],
        }

    def script(self) -> tuple[str, str] | None:
        """Path of the script, and its name where it is sent to; None if it is not sent.

        Raises
        ------
        LaunchError
            It can't be.
        """
        path = Path(self.job.command[0])
        sent = (self.copy or self.files) and path.suffix.lower() in SCRIPTS
        return script_to_send(path) if sent else None

    def placement(self, task: Task, run: Run, remote: ProxyProcess) -> Placement:
        """A worker, for the supervisor."""
        environment = {
            key: value
            for key, value in os.environ.items()
            if key.startswith(PASSED) and key not in _NOT_PASSED
        }
        environment |= {**self.job.variables(self.attempt), "TF_CONFIG": tf_config_json(task)}
        if not self.job.keras_compat:
            environment[KERAS_COMPAT_VARIABLE] = "0"
        if not self.secret:
            # The agent has it already.
            del environment[TOKEN_VARIABLE]
        note_path = str(run.path / "logs" / f"{file_stem(task.name)}.error.json")
        info = run.info()
        there = {
            "env": environment,
            "run_dir": str(run.path),
            "run_mark": {key: info[key] for key in ("started", "host", "pid")},
            # The chief writes the checkpoints, and the next attempt has to find them.
            "must_share": task.is_chief and self.job.max_restarts > 0,
        }
        return Placement(
            task.name,
            task.is_chief,
            tuple(self.job.command),
            {ERROR_FILE_VARIABLE: note_path},
            host=remote.host,
            start=partial(remote.start, {"job": there, "note_path": note_path}),
        )


@dataclass(frozen=True)
class AgentPlace:
    """Where one task is to run.

    Attributes
    ----------
    kind : str
        The task's: ``worker``, ``ps`` and so on.
    host : str
        The name of the machine.
    link : mapping
        What its proxy is told of the connection; see :mod:`.proxy`.
    sockets : tuple of socket
        What is handed over to its proxy.
    own_gpus : bool
        Whether somebody has seen to it that the agent sees only GPUs that no other one sees.
    """

    kind: str
    host: str
    link: Mapping[str, Any]
    sockets: tuple[socket.socket, ...] = ()
    own_gpus: bool = False


@dataclass
class ProxyProcess:
    """The process that stands in for one task's, started and asked."""

    host: str
    process: subprocess.Popen[bytes]
    files: Sequence[tuple[str, str]] = field(repr=False)

    @classmethod
    def asked(
        cls, job: str, place: AgentPlace, given: Mapping[str, Any], files: Sequence[tuple[str, str]]
    ) -> ProxyProcess:
        """Start it and have the agent asked; `job` is the name by which the process is found again."""
        process = subprocess.Popen(
            [python_executable(), "-m", "tfmuster.launch.remote.proxy"],
            env={**with_tfmuster_on_path(os.environ), JOB_VARIABLE: job},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
            pass_fds=[each.fileno() for each in place.sockets],
        )
        for each in place.sockets:
            # Nobody else may hold it: when the proxy ends, the agent must end too.
            each.close()
        remote = cls(place.host, process, files)
        remote._say({**place.link, **given})
        return remote

    def hello(self) -> dict[str, Any]:
        """What the agent answered; its proxy limits the time."""
        line = b""
        while not line.endswith(b"\n"):
            assert self.process.stdout is not None
            # A byte at a time: what follows is the worker's output, and for another reader.
            piece = self.process.stdout.read(1)
            if not piece:
                message = "its connection was ended here"
                return {"fault": {"code": "killed", "message": message, "fix": "", "said": ""}}
            line += piece
        answer: dict[str, Any] = orjson.loads(line)
        return answer

    def start(self, given: Mapping[str, Any]) -> subprocess.Popen[bytes]:
        """Have the files sent and the worker started; the process that stands in for it."""
        self._say({**given, "files": self.files})
        return self.process

    def ask_to_end(self) -> None:
        """Let it end, if it has not: it does when its input does."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def wait(self, until: float) -> None:
        """Wait until it has ended, or a time of the monotonic clock."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=max(0.0, until - time.monotonic()))

    def close(self) -> None:
        """Take its exit code and let go of its output."""
        assert self.process.stdout is not None
        self.process.wait()
        self.process.stdout.close()

    def _say(self, given: Mapping[str, Any]) -> None:
        assert self.process.stdin is not None
        view = memoryview(orjson.dumps(given) + b"\n")
        while view:
            view = view[self.process.stdin.write(view) or 0 :]


def run_remote(
    remote_job: RemoteJob,
    places: Sequence[AgentPlace],
    names: Mapping[str, list[str]],
    *,
    show: str,
    tell: bool,
) -> tuple[Run, Failure | None]:
    """Run a job once, to its end; its run directory, and its first failure.

    Parameters
    ----------
    remote_job : RemoteJob
        The job.
    places : sequence of Place
        Of each task, in the order of the cluster's.
    names : mapping
        By which names the others may know a host, the best first.
    show, tell
        See :class:`~tfmuster.launch.engines.base.Engine`.

    Raises
    ------
    LaunchError
        A host can't take part; every host's problems at once.
    """
    job, attempt = remote_job.job, remote_job.attempt
    with _connected(remote_job, places, names) as (cluster, remotes, warnings):
        run = attempt.begin(
            job.run_name(), run_dir=job.run_dir, command=job.command, cluster=cluster.to_dict()
        )
        if attempt.number == 0:
            record_git(run)
        if tell and attempt.number == 0:
            hosts = ", ".join(dict.fromkeys(remote.host for remote in remotes))
            count = "1 task" if len(remotes) == 1 else f"{len(remotes)} tasks"
            about = f"{count} on {hosts}; run directory {os.path.relpath(run.path)}"
            for line in (about, *warnings):
                print(f"tfmuster: {line}", file=sys.stderr, flush=True)
        placements = [
            remote_job.placement(task, run, remote)
            for task, remote in zip(cluster.tasks(), remotes, strict=True)
        ]
        supervisor = Supervisor(attempt.name, run, placements, show=show, another_after=attempt.another_after)
        return run, supervisor.supervise()


@contextlib.contextmanager
def _connected(
    remote_job: RemoteJob, places: Sequence[AgentPlace], names: Mapping[str, list[str]]
) -> Iterator[tuple[Cluster, list[ProxyProcess], list[str]]]:
    """The cluster, a process for each of its tasks that waits for its job, and what deserves a word.

    Afterwards nothing of them is left, neither here nor on the hosts.
    """
    name = remote_job.attempt.name
    question = {**remote_job.question(), "names": dict(names)}
    files = files_to_send(remote_job.files)
    seconds = start_timeout(remote_job.job.start_timeout)
    remotes: list[ProxyProcess] = []
    try:
        for place in places:
            gpus = {**_share_of(place, places), "per_worker": remote_job.job.gpus_per_worker}
            ask = {**question, "host": place.host, "gpus": gpus}
            given = {"seconds": seconds, "ask": ask, "script": remote_job.script()}
            remotes.append(ProxyProcess.asked(name, place, given, files))
        by_host: dict[str, dict[str, Any]] = {}
        hellos = [remote.hello() for remote in remotes]
        for place, hello in zip(places, hellos, strict=True):
            # One of several connections to a host may have failed.
            if "fault" not in by_host.get(place.host, {}):
                by_host[place.host] = hello
        if error := hosts_error(by_host, names):
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
        _end(name, remotes)


def _share_of(place: AgentPlace, places: Sequence[AgentPlace]) -> dict[str, Any]:
    """Among which tasks the GPUs that an agent sees are shared out, and which of them it is."""
    here = [place] if place.own_gpus else [other for other in places if other.host == place.host]
    number = next(at for at, other in enumerate(here) if other is place)
    return {"kinds": [other.kind for other in here], "place": number}


def _end(name: str, remotes: Sequence[ProxyProcess]) -> None:
    """Let all end by themselves, together; end those that don't."""
    for remote in remotes:
        remote.ask_to_end()
    until = time.monotonic() + REMOTE.seconds
    for remote in remotes:
        remote.wait(until)
    end_job(name, grace=0.0)
    for remote in remotes:
        remote.close()

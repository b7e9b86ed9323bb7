"""Place the workers of a job on other machines, through the system's ssh.

Nothing but the path of a Python is ever part of a command that a remote shell reads: the program, its
arguments, directories, files, the environment and the job's token go over ssh's input, to :mod:`.agent`.
One connection per worker asks everything first (is tfmuster there, and the program, which port is free),
then carries the worker; :mod:`.stand_in` is its end here.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from ..cluster import Cluster, Task
from ..rendezvous import start_timeout
from ..runs import Run, record_git
from ..tf_config import tf_config_json
from .failure import Failure
from .files import SCRIPTS, files_to_send, script_to_send
from .hosts import Host, place_tasks
from .inspection import clock_warnings, hosts_error, peer_names
from .interpreter import python_executable, with_package
from .local import LocalJob
from .processes import JOB_VARIABLE, end_job
from .restarting import Attempt, with_restarts
from .ssh_options import SshOptions
from .supervisor import Supervisor
from .worker import Placement

#: Names of variables that go along to the hosts; all others are the hosts' own.
PASSED = ("TFMUSTER_", "TF_", "KERAS_", "XLA_", "NCCL_", "GRPC_")
#: What belongs to one machine or one process.
_NOT_PASSED = (
    "TFMUSTER_JOB",
    "TFMUSTER_RUN_DIR",
    "TFMUSTER_ERROR_FILE",
    "TFMUSTER_TOKEN",
    "TFMUSTER_SSH_CONFIG",
    "TFMUSTER_KERAS_COMPAT",
)

#: How long the stand-ins may take to end by themselves, seconds.
_LEAVING_SECONDS = 5.0


class _Remote:
    """The process that stands in for one task's, started and asked."""

    def __init__(
        self, job: str, host: Host, given: Mapping[str, Any], files: Sequence[tuple[str, str]]
    ) -> None:
        self.host = host
        self._files = files
        self.process = subprocess.Popen(
            [python_executable(), "-m", "tfmuster.launch.stand_in"],
            env={**with_package(os.environ), JOB_VARIABLE: job},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        self._say(given)

    def hello(self) -> dict[str, Any]:
        """What the agent answered; it limits its time itself."""
        line = b""
        while not line.endswith(b"\n"):
            assert self.process.stdout is not None
            # A byte at a time: what follows is the worker's output, and for another reader.
            piece = self.process.stdout.read(1)
            if not piece:
                return {
                    "fault": {"code": "killed", "message": "its ssh was ended here", "fix": "", "said": ""}
                }
            line += piece
        answer: dict[str, Any] = orjson.loads(line)
        return answer

    def start(self, given: Mapping[str, Any]) -> subprocess.Popen[bytes]:
        """Have the files sent and the worker started; the process that stands in for it."""
        self._say({**given, "files": self._files})
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


@dataclass(frozen=True)
class Ssh:
    """Runs jobs on other machines, through ssh."""

    where: SshOptions

    @property
    def slots(self) -> int:
        """How many tasks the hosts take."""
        return sum(host.slots for host in self.where.hosts)

    def as_options(self) -> list[str]:
        """The same as options of ``tfmuster launch``."""
        return self.where.as_options()

    def run(self, job: LocalJob, *, show: str = "all", tell: bool = False) -> tuple[Run, Failure | None]:
        """Run a job to its end; its run directory, and the first failure of its last attempt.

        Raises
        ------
        LaunchError
            A host can't take part; every host's problems at once.
        """

        def once(attempt: Attempt) -> tuple[Run, Failure | None]:
            return _run_once(job, self.where, attempt, show=show, tell=tell)

        return with_restarts(once, job.max_restarts, tell=show != "nothing")


def _run_once(
    job: LocalJob, where: SshOptions, attempt: Attempt, *, show: str, tell: bool
) -> tuple[Run, Failure | None]:
    with _connected(job, where, attempt.name) as (cluster, remotes, warnings):
        run = attempt.begin(
            job.run_name(), run_dir=job.run_dir, command=job.command, cluster=cluster.to_dict()
        )
        if attempt.number == 0:
            record_git(run)
        if tell and attempt.number == 0:
            hosts = ", ".join(dict.fromkeys(remote.host.name for remote in remotes))
            count = "1 task" if len(remotes) == 1 else f"{len(remotes)} tasks"
            about = f"{count} on {hosts}; run directory {os.path.relpath(run.path)}"
            for line in (about, *warnings):
                print(f"tfmuster: {line}", file=sys.stderr, flush=True)
        placements = [
            _placement(job, attempt, task, run, remote)
            for task, remote in zip(cluster.tasks(), remotes, strict=True)
        ]
        supervisor = Supervisor(attempt.name, run, placements, show=show, another_after=attempt.another_after)
        return run, supervisor.supervise()


@contextlib.contextmanager
def _connected(
    job: LocalJob, where: SshOptions, name: str
) -> Iterator[tuple[Cluster, list[_Remote], list[str]]]:
    """The cluster, a process for each of its tasks that waits for its job, and what deserves a word.

    Afterwards nothing of them is left, neither here nor on the hosts.
    """
    tasks = place_tasks(job.sizes(), where.hosts)
    names = {host.name: where.names(host) for host in dict.fromkeys(host for *_, host in tasks)}
    seconds = start_timeout(job.start_timeout)
    files = files_to_send(where.files)
    remotes: list[_Remote] = []
    try:
        for number, (*_, host) in enumerate(tasks):
            here = [at for at, (*_, other) in enumerate(tasks) if other.name == host.name]
            ask = _question(job, where, host, names)
            ask["gpus"] = {
                "per_worker": job.gpus_per_worker,
                "kinds": [tasks[at][0] for at in here],
                "place": here.index(number),
            }
            command = where.agent_command(host, seconds)
            given = {"ssh": command, "host": host.target, "seconds": seconds, "ask": ask}
            remotes.append(_Remote(name, host, given, files))
        hellos = [remote.hello() for remote in remotes]
        by_host: dict[str, dict[str, Any]] = {}
        for (*_, host), hello in zip(tasks, hellos, strict=True):
            # One of several connections to a host may have failed.
            if "fault" not in by_host.get(host.name, {}):
                by_host[host.name] = hello
        if error := hosts_error(by_host, names):
            raise error
        reached = peer_names(by_host, names)
        addresses: dict[str, list[str]] = {}
        for (kind, _, host), hello in zip(tasks, hellos, strict=True):
            addresses.setdefault(kind, []).append(f"{reached[host.name]}:{hello['port']}")
        yield Cluster(**addresses), remotes, clock_warnings(by_host)
    except KeyboardInterrupt:
        end_job(name, grace=0.0)
        raise
    finally:
        _end(name, remotes)


def _end(name: str, remotes: Sequence[_Remote]) -> None:
    """Let all end by themselves, together; end those that don't."""
    for remote in remotes:
        remote.ask_to_end()
    until = time.monotonic() + _LEAVING_SECONDS
    for remote in remotes:
        remote.wait(until)
    end_job(name, grace=0.0)
    for remote in remotes:
        remote.close()


def _question(job: LocalJob, where: SshOptions, host: Host, names: Mapping[str, list[str]]) -> dict[str, Any]:
    script = Path(job.command[0])
    sent = where.copy or (where.files and script.suffix.lower() in SCRIPTS)
    return {
        "command": list(job.command),
        # What is sent goes to a folder of its own.
        "directory": None if where.copy or where.files else os.getcwd(),
        "script": script_to_send(script) if sent else None,
        "names": names,
        "host": host.name,
    }


def _placement(job: LocalJob, attempt: Attempt, task: Task, run: Run, remote: _Remote) -> Placement:
    environment = {
        key: value for key, value in os.environ.items() if key.startswith(PASSED) and key not in _NOT_PASSED
    }
    environment |= {**job.variables(attempt), "TF_CONFIG": tf_config_json(task)}
    if not job.keras_compat:
        environment["TFMUSTER_KERAS_COMPAT"] = "0"
    note_path = str(run.path / "logs" / f"{task.name.replace(' ', '-')}.error.json")
    info = run.info()
    there = {
        "env": environment,
        "run_dir": str(run.path),
        "run_mark": {key: info[key] for key in ("started", "host", "pid")},
        # The chief writes the checkpoints, and the next attempt has to find them.
        "must_share": task.is_chief and job.max_restarts > 0,
    }
    return Placement(
        task.name,
        task.is_chief,
        tuple(job.command),
        {"TFMUSTER_ERROR_FILE": note_path},
        host=remote.host.name,
        start=partial(remote.start, {"job": there, "note_path": note_path}),
    )

"""Place the workers of a job on this machine.

Works on Linux and macOS; TensorFlow for Windows runs under WSL, where it is Linux.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..cluster import Cluster, Task
from ..errors import LaunchError
from ..rendezvous import start_timeout
from ..run_start import new_run_path, record_git
from ..runs import RUN_DIR_VARIABLE, Run
from ..tf_config import tf_config_json
from .engines import shown_path
from .failure import Failure
from .gpus import share_out
from .interpreter import for_worker, python_executable, rscript_executable, with_package
from .naming import check_text, command_name
from .processes import JOB_VARIABLE
from .restarting import Attempt, with_restarts
from .supervisor import Supervisor
from .worker import Placement

HOST = "127.0.0.1"
_DETACH_SECONDS = 30.0
# Kept, so that a launcher that has ended does not stay a zombie for as long as the session lasts.
_detached: list[subprocess.Popen[bytes]] = []


@dataclass(frozen=True)
class LocalJob:
    """What to run, and how many times. See :func:`tfmuster.launch.launch` for the fields."""

    command: Sequence[str]
    workers: int = 2
    ps: int = 0
    chief: bool = False
    evaluator: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    name: str | None = None
    run_dir: str | os.PathLike[str] | None = None
    keras_compat: bool = True
    max_restarts: int = 0
    start_timeout: float | None = None
    gpus_per_worker: int | None = None

    def __post_init__(self) -> None:
        counts = [("workers", self.workers, 1), ("ps", self.ps, 0), ("restarts", self.max_restarts, 0)]
        if self.gpus_per_worker is not None:
            counts.append(("GPUs per worker", self.gpus_per_worker, 0))
        for what, count, least in counts:
            if isinstance(count, bool) or not isinstance(count, int) or count < least:
                raise LaunchError(
                    f"The number of {what} must be a whole number, {least} or more.",
                    found=repr(count),
                    reason=what.lower().replace(" ", "-"),
                )
        start_timeout(self.start_timeout)
        if not self.command:
            raise LaunchError(
                "Nothing to run.", fix="Name a script, or a command after `--`.", reason="command"
            )
        check_text(*self.command, *map(str, self.env.values()), self.name or "", str(self.run_dir or ""))

    def sizes(self) -> dict[str, int]:
        """How many tasks of each kind."""
        return {
            "chief": int(self.chief),
            "worker": self.workers,
            "ps": self.ps,
            "evaluator": int(self.evaluator),
        }

    def variables(self, attempt: Attempt) -> dict[str, str]:
        """What every worker finds in its environment about the job, wherever it runs."""
        variables = {**self.env, **attempt.variables()}
        if self.start_timeout is not None:
            variables["TFMUSTER_START_TIMEOUT"] = str(self.start_timeout)
        return variables

    def run_name(self) -> str:
        """The name given, or one made of the command."""
        return self.name or command_name(self.command)


def run_job(job: LocalJob, *, show: str = "all", tell: bool = False) -> tuple[Run, Failure | None]:
    """Run a job to its end; its run directory, and the first failure of its last attempt."""
    command = resolve_command(job.command)
    kinds = [kind for kind, size in job.sizes().items() for _ in range(size)]
    gpus = share_out(kinds, job.gpus_per_worker, {**os.environ, **job.env})

    def once(attempt: Attempt) -> tuple[Run, Failure | None]:
        return _run_once(job, command, gpus, attempt, show=show, tell=tell)

    return with_restarts(once, job.max_restarts, tell=show != "nothing")


def _run_once(
    job: LocalJob,
    command: tuple[str, ...],
    gpus: Sequence[Mapping[str, str]],
    attempt: Attempt,
    *,
    show: str,
    tell: bool,
) -> tuple[Run, Failure | None]:
    sizes = job.sizes()
    with held_ports(sum(sizes.values())) as ports:
        remaining = iter(ports)
        addresses = {
            name: tuple(f"{HOST}:{next(remaining)}" for _ in range(size))
            for name, size in sizes.items()
            if size
        }
        cluster = Cluster(**addresses)
        run = attempt.begin(
            job.run_name(), run_dir=job.run_dir, command=job.command, cluster=cluster.to_dict()
        )
        if tell and attempt.number == 0:
            print(
                f"tfmuster: {_count(sizes)} on this machine; {shown_path(run)}", file=sys.stderr, flush=True
            )
        placements = [
            Placement(
                task.name, task.is_chief, command, {**worker_environment(job, attempt, task, run), **visible}
            )
            for task, visible in zip(cluster.tasks(), gpus, strict=True)
        ]
        if attempt.number == 0:
            record_git(run)
        supervisor = Supervisor(attempt.name, run, placements, show=show, another_after=attempt.another_after)
        return run, supervisor.supervise()


def worker_environment(job: LocalJob, attempt: Attempt, task: Task, run: Run) -> dict[str, str]:
    """The whole environment of one worker."""
    environment = for_worker({**os.environ, **job.variables(attempt)})
    environment.pop("TFMUSTER_KERAS_COMPAT", None)
    if not job.keras_compat:
        environment["TFMUSTER_KERAS_COMPAT"] = "0"
    stem = task.name.replace(" ", "-")
    return {
        **environment,
        "TF_CONFIG": tf_config_json(task),
        JOB_VARIABLE: attempt.name,
        RUN_DIR_VARIABLE: str(run.path),
        "TFMUSTER_ERROR_FILE": str(run.path / "logs" / f"{stem}.error.json"),
    }


def resolve_command(command: Sequence[str]) -> tuple[str, ...]:
    """The argument list to execute: scripts get their interpreter, commands their path.

    Raises
    ------
    LaunchError
        There is no such script or command, or no Rscript.
    """
    first, *arguments = command
    suffix = Path(first).suffix.lower()
    if suffix in (".py", ".r"):
        if not Path(first).is_file():
            raise LaunchError(
                "The script to run must exist.",
                found=f"no file {first} in {os.getcwd()}",
                fix="Check the path; it is relative to the working directory.",
                reason="script",
            )
        interpreter = python_executable() if suffix == ".py" else _rscript()
        return (interpreter, first, *arguments)
    if first == "tfmuster":
        # This copy, whatever else is on PATH.
        return (python_executable(), "-m", "tfmuster", *arguments)
    return (_executable(first, "Give the path of a .py or .R script, or of a command."), *arguments)


@contextlib.contextmanager
def held_ports(count: int) -> Iterator[list[int]]:
    """Ports of all interfaces that nobody else gets while the block lasts; the workers can listen on them.

    On Linux a bound socket that does not listen keeps its port from those who ask for any free one, and lets
    those pass who name it with SO_REUSEADDR, as gRPC does. Elsewhere the ports are free only at the start.
    """
    with contextlib.ExitStack() as held:
        ports = []
        for _ in range(count):
            holder = held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            holder.bind(("0.0.0.0", 0))
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            ports.append(int(holder.getsockname()[1]))
        if sys.platform != "linux":
            held.close()
        yield ports


def start_detached(job: LocalJob, more: Sequence[str] = ()) -> Run:
    """Start a job whose launcher is a process of its own, and return when its workers have been started.

    Parameters
    ----------
    job : LocalJob
        What to run.
    more : sequence of str
        More options of ``tfmuster launch``.

    Raises
    ------
    LaunchError
        They could not be started; with what the launcher said.
    """
    run = Run(job.run_dir if job.run_dir is not None else new_run_path(job.run_name()))
    options = [*launch_options(job, run), *more]
    launcher = subprocess.Popen(
        [python_executable(), "-m", "tfmuster", "launch", "--quiet", *options, "--", *job.command],
        env=with_package({**os.environ, **job.env}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert launcher.stderr is not None
    _detached.append(launcher)
    _detached[:] = [process for process in _detached if process.poll() is None]
    # Hosts may take as long to answer as workers to arrive.
    limit = _DETACH_SECONDS + start_timeout(job.start_timeout)
    end = time.monotonic() + limit
    while run.status()["state"] == "starting" or not run.info():
        if launcher.poll() is not None and not run.info():
            said = launcher.stderr.read().decode(errors="replace").strip()
            raise LaunchError("The job could not be started.", found=said or "no message", reason="detached")
        if time.monotonic() > end:
            launcher.terminate()
            raise LaunchError(
                "The job did not start in time, and was ended.",
                found=f"no worker runs after {limit:.0f} s",
                fix="See what `tfmuster launch` shows without wait=False.",
                reason="detached",
            )
        time.sleep(0.05)
    launcher.stderr.close()
    return run


def launch_options(job: LocalJob, run: Run | None) -> list[str]:
    """The same job as options of ``tfmuster launch``, without its variables."""
    options = ["-n", str(job.workers), "--ps", str(job.ps), "--name", job.run_name()]
    options += ["--max-restarts", str(job.max_restarts)]
    if run is not None:
        options += ["--run-dir", str(run.path)]
    if job.start_timeout is not None:
        options += ["--start-timeout", str(job.start_timeout)]
    if job.gpus_per_worker is not None:
        options += ["--gpus-per-worker", str(job.gpus_per_worker)]
    switches = {"--chief": job.chief, "--evaluator": job.evaluator, "--no-keras-compat": not job.keras_compat}
    return options + [switch for switch, on in switches.items() if on]


def _rscript() -> str:
    return rscript_executable() or _executable("Rscript", "Install R, or put it on PATH.")


def _executable(name: str, fix: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise LaunchError(
            "The program to run must be on PATH.", found=f"no {name}", fix=fix, reason="command"
        )
    return path


def _count(sizes: Mapping[str, int]) -> str:
    plural = {"worker": "workers", "ps": "parameter servers"}
    singular = {"ps": "parameter server"}
    return ", ".join(
        f"{size} {plural.get(name, name) if size > 1 else singular.get(name, name)}"
        for name, size in sizes.items()
        if size
    )

"""What batch systems have in common: a job that runs ``tfmuster launch`` is submitted, followed, canceled.

The batch job runs the very same ``tfmuster launch``, so that it does not depend on the machine from which it
was submitted. A batch system is one file with a subclass of `BatchEngine` that says how the system is asked::

    class Mine(BatchEngine):
        NAME, TITLE, COMMANDS = "mine", "Mine", ("msub", "mdel", "mstat")
        SUBMIT, CANCEL = ("msub", "--quiet"), "mdel"
        CHECK = "`mstat` shows what there is to ask for."
        CHOOSING_HOSTS = "--backend-option=--on=node1,node2"
        batch_job = staticmethod(mine.batch_job)  # of cluster/resolvers: the job of this process, if any

        def slots_inside(self, environ): ...    # for how many tasks that has room
        def directives(self, request): ...      # the lines of the batch script that ask for machines
        def number_of(self, answer): ...        # the job's number in what that prints
        def state(self, number): ...            # waiting, running, over
        def ending(self, number, host): ...     # the system's word for how a job has ended
        def run_inside(self, job, *, show, tell): ...  # run_placed(), for a system that starts agents
"""

from __future__ import annotations

import abc
import contextlib
import os
import re
import shlex
import shutil
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from ...environment import SUBMITTED_VARIABLE
from ...errors import LaunchError, TfmusterError
from ...runs.failure import Failure
from ...runs.layout import STOP_COMMAND, UNFINISHED, read_json, utc_now, write_json
from ...runs.lifecycle import claim_run_dir
from ...runs.run import Run
from ...runs.states import State
from ...runs.tail import Tail
from ...system.ask import Answer, NoAnswerError, ask
from ...system.interpreter import package_root, python_executable
from ..job import Job, launch_options
from ..supervise.display import LineDisplay, Row, display
from ..text_checks import check_line
from .agent_command import CommandPerAgent
from .base import Engine

if TYPE_CHECKING:
    from ...cluster.resolvers.batch_job import BatchJob
    from ..remote.gather import AgentRequest

_LOOK_SECONDS = 0.2
#: The batch system is asked no more often than this: it serves everybody.
_ASK_SECONDS = 2.0
#: How long it may take to accept a job, and to answer a question about one.
_SUBMIT_SECONDS, _ANSWER_SECONDS = 60.0, 10.0
#: How long a file system may take to show what a node has written.
_SHARED_SECONDS = 5.0
#: How long it may take to end a job's processes.
_CANCEL_SECONDS = 60.0
_LAST_LINES = 20


class Phase(Enum):
    """Where a batch job is on its way."""

    WAITING = "waiting"
    RUNNING = "running"
    OVER = "over"
    #: It will never run: the batch system holds it because it failed to start.
    STUCK = "stuck"
    #: The batch system does not answer.
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class JobState:
    """What a batch system says of a job.

    Attributes
    ----------
    phase : Phase
        Where it is on its way.
    why : str
        Why it waits or is stuck, in the batch system's words.
    """

    phase: Phase
    why: str = ""


@dataclass(frozen=True)
class BatchRequest:
    """What a batch job asks for.

    Attributes
    ----------
    name : str
        The run's name.
    tasks : int
        For how many tasks there must be room.
    directory : str
        Where the job runs.
    log : Path or None
        The file for what the job itself writes; None leaves that to the batch system.
    gpus_per_task : int
        How many GPUs each task needs.
    """

    name: str
    tasks: int
    directory: str
    log: Path | None
    gpus_per_task: int = 0

    def safe_name(self, longest: int) -> str:
        """The name in the characters that every batch system takes: a letter first, no blanks."""
        name = re.sub(r"[^A-Za-z0-9_.-]+", "_", self.name)
        return (name if name[:1].isalpha() else f"run{name}")[:longest]


@dataclass(frozen=True)
class BatchEngine(Engine):
    """An engine whose jobs wait until a batch system has machines for them.

    The user's options are those of the command that submits, each with its value.
    """

    launcher_addresses: Sequence[str] = ()

    #: The name of ``--backend`` and of its files, and the name in texts.
    NAME: ClassVar[str]
    TITLE: ClassVar[str]
    #: Commands that must be on PATH where jobs are submitted.
    COMMANDS: ClassVar[tuple[str, ...]]
    #: What takes the batch script on its standard input, and what ends the job whose number follows.
    SUBMIT: ClassVar[tuple[str, ...]]
    CANCEL: ClassVar[str]
    #: What helps somebody whose job was refused.
    CHECK: ClassVar[str]
    #: How its user asks for certain machines.
    CHOOSING_HOSTS: ClassVar[str]
    #: What runs the batch script.
    SHELL: ClassVar[str] = "/bin/sh"

    def __post_init__(self) -> None:
        where = self.where
        hosts = where.hosts or where.hostfile
        if hosts or where.addresses:
            raise LaunchError(
                f"{self.TITLE} chooses the nodes.",
                found=f"hosts {hosts}" if hosts else "--address",
                fix=f"Leave them out; {self.CHOOSING_HOSTS} asks for some.",
                reason="hosts",
            )
        for option in where.backend_options:
            check_line(option, f"option of {self.COMMANDS[0]}", start="-")

    @staticmethod
    @abc.abstractmethod
    def batch_job(environ: Mapping[str, str]) -> BatchJob | None:
        """The job that has given machines to this process; None if there is none."""

    @abc.abstractmethod
    def slots_inside(self, environ: Mapping[str, str]) -> int | None:
        """For how many tasks it has given machines to this process."""

    @abc.abstractmethod
    def directives(self, request: BatchRequest) -> list[str]:
        """The lines of the batch script that ask for machines."""

    def enter(self, request: BatchRequest) -> list[str]:
        """The lines that follow, for a system whose options can't name every directory and file."""
        lines = [f"cd {shlex.quote(request.directory)} || exit"]
        return [*lines, f"exec >{shlex.quote(str(request.log))} 2>&1"] if request.log else lines

    def body(self, command: Sequence[str]) -> list[str]:
        """The lines that run the launcher."""
        return [f"exec {shlex.join(command)}"]

    @abc.abstractmethod
    def number_of(self, answer: str) -> str | None:
        """The job's number in what that command prints; None if there is none."""

    @abc.abstractmethod
    def state(self, number: str) -> JobState:
        """What the batch system says of a job."""

    def ending(self, number: str, host: str) -> str:
        """The batch system's word for how a job has ended; "" if it does not say.

        Parameters
        ----------
        number : str
            The job.
        host : str
            Where its launcher has run; "" if it has not started.
        """
        return ""

    @property
    def is_inside(self) -> bool:
        """Whether this process runs in a batch job already."""
        return self.batch_job(os.environ) is not None

    @property
    def slots(self) -> int | None:
        """For how many tasks there is room, inside a batch job."""
        return self.slots_inside(os.environ) if self.is_inside else None

    def as_options(self) -> list[str]:
        """See :class:`.base.Engine`."""
        options = [f"--backend-option={option}" for option in self.where.backend_options]
        return [f"--backend={self.NAME}", *self.where.sent_options(), *options]

    def run(self, job: Job, *, show: str = "all", tell: bool = False) -> tuple[Run, Failure | None]:
        """See :class:`.base.Engine`."""
        if self.is_inside:
            try:
                return self.run_inside(job, show=show, tell=tell)
            except TfmusterError as error:
                if job.run_dir is not None and Run(job.run_dir).info():
                    _note_failed_start(Run(job.run_dir), error, self)
                raise
        return follow(self._submit(job), show=show, tell=tell)

    @abc.abstractmethod
    def run_inside(self, job: Job, *, show: str, tell: bool) -> tuple[Run, Failure | None]:
        """Run a job on the machines of the batch job in which this process is."""

    def agents_on_slots(
        self,
        request: AgentRequest,
        hosts: Sequence[str],
        remote_shell: Sequence[str],
        *,
        more: str,
        explain: Callable[[str, str], TfmusterError],
        ignored: Sequence[str] = (),
    ) -> CommandPerAgent:
        """Start an agent on each slot of a batch job, for systems that run a line of shell on a host.

        Parameters
        ----------
        request : AgentRequest
            What is to be started.
        hosts : sequence of str
            The host of each slot. The batch script runs on the first.
        remote_shell : sequence of str
            The command that runs a line of shell on a host; the host and the line follow.
        more : str
            How the user asks for more slots.
        explain, ignored
            See :class:`.agent_command.CommandPerAgent`.

        Raises
        ------
        LaunchError
            There are fewer slots than tasks.
        """
        if request.count > len(hosts):
            raise LaunchError(
                "The job must have a slot for every task.",
                found=f"{request.count} tasks, and {len(hosts)} slots on {', '.join(dict.fromkeys(hosts))}",
                fix=f"{more}, or start fewer workers (-n).",
                reason="slots",
            )
        shells = [
            # Some systems count the batch script itself as the first task of its host.
            ["/bin/sh", "-c"] if host == hosts[0] else [*remote_shell, host]
            for host in hosts[: request.count]
        ]
        python = self.where.remote_python or python_executable()
        return CommandPerAgent(request, shells, python, explain, ignored)

    def submit(self, job: Job) -> Run | None:
        """See :class:`.base.Engine`. It may wait for its machines for hours."""
        return None if self.is_inside else self._submit(job).run

    def _submit(self, job: Job) -> Submitted:
        if SUBMITTED_VARIABLE in os.environ:
            # A launcher that does not recognize its own batch job would submit another one, and so on.
            raise LaunchError(
                f"A launcher in a batch job must find the variables of {self.TITLE}.",
                found="none of them in its environment",
                fix="See that the nodes' start files leave the job's environment as it is.",
                reason="batch",
            )
        claim = claim_run_dir(job.run_name(), job.run_dir)
        try:
            return self._submit_in(Run(claim.path), job)
        finally:
            claim.release()

    def _submit_in(self, run: Run, job: Job) -> Submitted:
        if _started(run):
            raise LaunchError(
                "The run directory must be new.",
                found=f"{run.path} already holds a run",
                fix="Choose another directory, or remove this one.",
                reason="run-dir",
            )
        for name in self.COMMANDS:
            self.program(name)
        script = self.script(job, run)
        about = {"name": run.name, "command": list(job.command), "cluster": {}, "started": utc_now()}
        # No machine has its launcher yet.
        write_json(run.path / "run.json", {**about, "directory": os.getcwd(), "host": ""})
        try:
            number = self._number(script, {**os.environ, **job.env})
        except BaseException:
            _forget(run)
            raise
        # Not into run.json, which the launcher may be writing now.
        run.set_stop_command([self.CANCEL, number])
        return Submitted(self, number, run)

    def _number(self, script: str, env: Mapping[str, str]) -> str:
        """Have the script submitted; the job's number."""
        try:
            answer = self.submit_script(script, env, _SUBMIT_SECONDS)
        except NoAnswerError as error:
            found = str(error)
        else:
            number = None if answer.code else self.number_of(answer.output)
            if number is not None:
                return number
            found = answer.errors.strip() or answer.output.strip() or f"exit code {answer.code}"
        raise LaunchError(
            f"{self.TITLE} must take the job.",
            found=found,
            fix=f"`tfmuster doctor` says whether {self.TITLE} answers. {self.CHECK}",
            reason="batch",
        )

    def submit_script(self, script: str, env: Mapping[str, str], seconds: float) -> Answer:
        """Give a script to the batch system. Raises NoAnswerError if that takes too long."""
        name, *options = self.SUBMIT
        return ask(self.program(name), *options, seconds=seconds, env=env, input=script)

    def script(self, job: Job, run: Run | None = None) -> str:
        """The batch script; without a run directory it may be submitted again and again."""
        inner = replace(self, where=replace(self.where, backend_options=()))
        options = [*launch_options(job, run), *inner.as_options()]
        python = self.where.remote_python or python_executable()
        command = [python, "-m", "tfmuster", "launch", "--quiet", *options, "--", *job.command]
        request = BatchRequest(
            name=job.run_name(),
            tasks=sum(job.sizes().values()),
            directory=os.getcwd(),
            log=None if run is None else log_of(run, self.NAME),
            gpus_per_task=job.gpus_per_worker or 0,
        )
        lines = [f"#!{self.SHELL}", *self.directives(request), *self.enter(request)]
        lines.append(f"export {SUBMITTED_VARIABLE}={self.NAME}")
        if root := package_root():
            lines.append(f'export PYTHONPATH={shlex.quote(root)}"${{PYTHONPATH:+:$PYTHONPATH}}"')
        return "\n".join([*lines, *self.body(command), ""])

    @classmethod
    def program(cls, name: str) -> str:
        """The path of one of the batch system's commands. Raises LaunchError if there is none."""
        path = shutil.which(name)
        if path is None:
            raise LaunchError(
                f"The backend {cls.NAME} needs {cls.TITLE}'s commands.",
                found=f"no {name} on PATH",
                fix="Run it on a machine from which jobs are submitted.",
                reason="batch",
            )
        return path

    @classmethod
    def ask(cls, *command: str, seconds: float = _ANSWER_SECONDS) -> Answer | None:
        """What a command of the batch system says; None if it does not answer."""
        try:
            return ask(cls.program(command[0]), *command[1:], seconds=seconds)
        except NoAnswerError:
            return None


@dataclass(frozen=True)
class Submitted:
    """A batch job.

    Attributes
    ----------
    system : BatchEngine
        Its batch system.
    number : str
        That system's number for it.
    run : Run
        Its run directory, there as soon as it has started.
    """

    system: BatchEngine
    number: str
    run: Run

    @property
    def title(self) -> str:
        """It as texts call it."""
        return f"job {self.number} of {self.system.TITLE}"

    @property
    def log(self) -> Path:
        """What the batch job itself has written, beside the run directory."""
        return log_of(self.run, self.system.NAME)

    def cancel(self) -> None:
        """End it, and wait for that."""
        self.system.ask(self.system.CANCEL, self.number, seconds=_SUBMIT_SECONDS)
        end = time.monotonic() + _CANCEL_SECONDS
        while self.system.state(self.number).phase is not Phase.OVER and time.monotonic() < end:
            time.sleep(_LOOK_SECONDS)


def log_of(run: Run, name: str) -> Path:
    """Where the batch job itself writes: beside its run directory, which is not there yet."""
    return run.path.with_name(f"{run.path.name}.{name}.log")


def follow(job: Submitted, *, show: str, tell: bool) -> tuple[Run, Failure | None]:
    """Show a batch job's workers until it is over; its run directory, and its first failure.

    If this is interrupted, the batch job is canceled.

    Raises
    ------
    LaunchError
        It could not be started.
    """
    if tell:
        _say(f"{job.title}; run directory {os.path.relpath(job.run.path)}")
    shown = display(show, job.run.path)
    try:
        _watch(job, shown, show, tell=tell)
    except BaseException:
        job.cancel()
        _keep_log(job)
        if not _started(job.run):
            _forget(job.run)
        else:
            _wait_for_files(job.run)
            if _written_state(job.run) in UNFINISHED:
                # Its launcher was killed before it could write that.
                job.run.end("interrupted")
        raise
    finally:
        shown.close()
    return _outcome(job)


def _watch(job: Submitted, shown: LineDisplay, show: str, *, tell: bool) -> None:
    tail: Tail | None = None
    next_question, told = 0.0, ""
    over = False
    while not over:
        if time.monotonic() >= next_question:
            next_question = time.monotonic() + _ASK_SECONDS
            state = job.system.state(job.number)
            if state.phase is Phase.STUCK:
                raise LaunchError(
                    f"{job.title[0].upper()}{job.title[1:]} must start.",
                    found=state.why,
                    fix=f"See that every node has the directory {os.getcwd()}; the job has been removed.",
                    reason="batch",
                )
            # Its launcher has said how it ended: that need not wait for a batch system that does not answer.
            said = state.phase is Phase.UNKNOWN and _started(job.run)
            over = state.phase is Phase.OVER or (said and _written_state(job.run) not in UNFINISHED)
            waits = state.phase is Phase.WAITING
            waiting = f"waits: {state.why}".removesuffix(": ") if waits else ""
            if tell and waiting not in ("", told):
                _say(f"job {job.number} {waiting}")
            told = waiting or told
        if tail is None and _started(job.run):
            tail = Tail(job.run, None)
        if over:
            _wait_for_files(job.run)
        if tail is not None and show != "nothing":
            for line in tail.new_lines(last=over):
                if show == "all" or line.split(" | ")[0].strip() == _chief(job.run):
                    shown.line(line)
        shown.look(lambda: _rows(job.run))
        time.sleep(_LOOK_SECONDS)


def _wait_for_files(run: Run) -> None:
    """Give a shared file system the time to show how the run has ended."""
    end = time.monotonic() + _SHARED_SECONDS
    while _started(run) and _written_state(run) in UNFINISHED and time.monotonic() < end:
        time.sleep(_LOOK_SECONDS)


def _note_failed_start(run: Run, error: TfmusterError, system: BatchEngine) -> None:
    """Inside the batch job: write down why it ends before its workers have started."""
    if run.status()["state"] == "starting":
        lines = tuple(str(error).splitlines())
        failure = _failure(run, system, "the launcher", f"could not start the workers: {lines[0]}", lines)
        # Not by Run.end: what never began is removed again, if the launcher waits.
        write_json(run.path / "error.json", failure.to_dict())
        run.set_status(state="failed")


def _keep_log(job: Submitted) -> str:
    """Put what the batch job has written where the run's other logs are, if there are any; its text."""
    try:
        text = job.log.read_text(errors="replace").strip()
        if _started(job.run):
            job.log.replace(job.run.path / "logs" / f"{job.system.NAME}.log")
        else:
            job.log.unlink()
    except OSError:
        return ""
    return text


def _outcome(job: Submitted) -> tuple[Run, Failure | None]:
    run, system = job.run, job.system
    text = _keep_log(job)
    lines = tuple(text.splitlines()[-_LAST_LINES:])
    if not _started(run):
        _forget(run)
        raise LaunchError(
            f"Job {job.number} of {system.TITLE} must start its workers.",
            found=text.removeprefix("Error: ")[-2000:] or _ending(job),
            fix=None if text else "See that every node has this directory, and tfmuster at the same path.",
            reason="batch",
        )
    state = _written_state(run)
    if state == "done":
        return run, None
    if (error := run.error()) and state == "failed":
        return run, Failure.from_dict(error)
    said = f"was ended by {system.TITLE}: {_ending(job)}"
    failure = _failure(run, system, f"job {job.number}", said, lines)
    if state in UNFINISHED:
        # Its launcher was killed, and could not write it.
        run.end("failed", failure.to_dict())
    return run, failure


def _ending(job: Submitted) -> str:
    return job.system.ending(job.number, str(job.run.info().get("host") or "")) or "it does not say why"


def _failure(run: Run, system: BatchEngine, who: str, error: str, lines: tuple[str, ...]) -> Failure:
    return Failure(
        time=time.time(),
        task=who,
        host=str(run.info().get("host") or socket.gethostname()),
        exit_code=None,
        signal=None,
        error=error,
        traceback="",
        last_lines=lines,
        log=str(run.path / "logs" / f"{system.NAME}.log"),
    )


def _started(run: Run) -> bool:
    """Whether the launcher on the nodes has made the run directory its own."""
    return (run.path / "logs").is_dir()


def _forget(run: Run) -> None:
    """Remove what a job has left that never started."""
    for name in ("run.json", "status.json", "error.json", STOP_COMMAND):
        (run.path / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        run.path.rmdir()


def _written_state(run: Run) -> str:
    """As its launcher has written it, on whichever node that runs."""
    return str(read_json(run.path / "status.json").get("state", "starting"))


def _chief(run: Run) -> str:
    tasks = run.log_paths()
    return "chief 0" if "chief 0" in tasks else "worker 0"


def _rows(run: Run) -> list[Row]:
    tasks = read_json(run.path / "status.json").get("tasks", {})
    return [(name, str(entry["host"]), State(str(entry["state"]))) for name, entry in tasks.items()]


def _say(text: str) -> None:
    print(f"tfmuster: {text}", file=sys.stderr, flush=True)

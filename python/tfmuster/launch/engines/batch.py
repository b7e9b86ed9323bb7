"""What batch systems have in common: a batch job that runs ``tfmuster launch`` is written and submitted.

The batch job runs the very same ``tfmuster launch``, so that it does not depend on the machine from which it
was submitted. A batch system is one file with a subclass of `BatchEngine` that says how the system is asked::

    class Mine(BatchEngine):
        NAME, TITLE, COMMANDS = "mine", "Mine", ("msub", "mdel", "mstat")
        SUBMIT, CANCEL = ("msub", "--quiet"), "mdel"
        CHECK, CHOOSING_HOSTS = "`mstat` lists the queues.", "--backend-option=--on=node1"
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
import os
import re
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from ...environment import SUBMITTED_VARIABLE
from ...errors import LaunchError, TfmusterError
from ...options.hints import Hint
from ...options.table import Started
from ...runs.failure import Failure
from ...runs.layout import utc_now
from ...runs.lifecycle import claim_run_dir, not_new
from ...runs.recording import record_info, record_stop_command
from ...runs.resuming import resumes
from ...runs.run import Run
from ...system.ask import Answer, NoAnswerError, ask
from ...system.interpreter import package_root, python_executable, run_module
from ...words import FACE_VARIABLE, Code, Part, Words, face
from ..job import Job, launch_options
from ..text_checks import check_line
from .agent_command import CommandPerAgent
from .base import Engine
from .batch_follow import (
    SUBMIT_SECONDS,
    JobState,
    Submitted,
    follow,
    forget,
    has_started,
    log_of,
    note_failed_start,
)

if TYPE_CHECKING:
    from ...cluster.resolvers.batch_job import BatchJob
    from ..remote.gather import AgentRequest

#: How long a batch system may take to answer a question about a job, seconds.
_ANSWER_SECONDS = 10.0
_DOCTOR = Code("tfmuster doctor", "tfmuster_doctor()", "tfmuster doctor")


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

    where: Started = field(default_factory=Started)
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
    CHOOSING_HOSTS: ClassVar[str | Part]
    #: What runs the batch script.
    SHELL: ClassVar[str] = "/bin/sh"

    def __post_init__(self) -> None:
        where = self.where
        hosts = where.hosts or where.hostfile
        if hosts or where.addresses:
            raise LaunchError(
                f"{self.TITLE} chooses the nodes.",
                found=f"hosts {hosts}" if hosts else "--address",
                fix=Words("Leave them out; {} asks for some.", self.CHOOSING_HOSTS),
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
        return [f"--backend={self.NAME}", *self.where.on_command_line()]

    def run(self, job: Job, *, show: str = "all", tell: bool = False) -> tuple[Run, Failure | None]:
        """See :class:`.base.Engine`."""
        if self.is_inside:
            try:
                return self.run_inside(job, show=show, tell=tell)
            except TfmusterError as error:
                if job.run_dir is not None and Run(job.run_dir).info():
                    note_failed_start(Run(job.run_dir), error, self)
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
                fix=Words("{}, or start fewer workers ({}).", more, Hint("workers")),
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
        resumed = has_started(run)
        if resumed and not resumes(run, job.command):
            raise not_new(run.path)
        for name in self.COMMANDS:
            self.program(name)
        script = self.script(job, run)
        if not resumed:
            about = {"name": run.name, "command": list(job.command), "cluster": {}, "started": utc_now()}
            # No machine has its launcher yet.
            record_info(run, {**about, "directory": os.getcwd(), "host": ""})
        job.record(run)
        try:
            number = self._number(script, {**os.environ, **job.env})
        except BaseException:
            if not resumed:
                forget(run)
            raise
        # Not into run.json, which the launcher may be writing now.
        record_stop_command(run, [self.CANCEL, number])
        return Submitted(self, number, run)

    def _number(self, script: str, env: Mapping[str, str]) -> str:
        """Have the script submitted; the job's number."""
        try:
            answer = self.submit_script(script, env, SUBMIT_SECONDS)
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
            fix=Words("`{}` says whether {} answers. {}", _DOCTOR, self.TITLE, self.CHECK),
            reason="batch",
        )

    def submit_script(self, script: str, env: Mapping[str, str], seconds: float) -> Answer:
        """Give a script to the batch system. Raises NoAnswerError if that takes too long."""
        return ask(self.program(self.SUBMIT[0]), *self.SUBMIT[1:], seconds=seconds, env=env, input=script)

    def script(self, job: Job, run: Run | None = None) -> str:
        """The batch script; without a run directory it may be submitted again and again."""
        inner = replace(self, where=self.where.changed(backend_options=()))
        options = [*launch_options(job, run), *inner.as_options()]
        tfmuster = run_module("tfmuster", self.where.remote_python)
        command = [*tfmuster, "launch", "--quiet", *options, "--", *job.command]
        request = BatchRequest(
            name=job.run_name(),
            tasks=sum(job.sizes().values()),
            directory=os.getcwd(),
            log=None if run is None else log_of(run, self.NAME),
            gpus_per_task=job.gpus_per_worker or 0,
        )
        lines = [f"#!{self.SHELL}", *self.directives(request), *self.enter(request)]
        lines.append(f"export {SUBMITTED_VARIABLE}={self.NAME} {FACE_VARIABLE}={face()}")
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

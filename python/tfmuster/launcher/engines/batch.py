"""What batch systems have in common: a batch job that runs ``tfmuster launch`` is written and submitted.

The batch job runs the very same ``tfmuster launch``, so that it does not depend on the machine from which it
was submitted. A batch system is one file with a subclass of `BatchEngine`. Its values are a row of a table:
the variables of its jobs, its commands and what they print (`BatchCommands`), the lines of its scripts, and
how an agent is started on a slot. A subclass has methods only where values do not say it.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import ClassVar

from ...cluster.resolvers.batch import SlotSystem
from ...environment import SUBMITTED_VARIABLE
from ...errors import LaunchError, TfmusterError
from ...options.hints import Hint
from ...options.places import Started
from ...system.interpreter import package_root, python_executable, run_module
from ...tracking.failure.failure import Failure
from ...tracking.lifecycle.beginning import claim_run_dir, not_new
from ...tracking.lifecycle.resuming import resumes
from ...tracking.record.layout import utc_now
from ...tracking.record.recording import record_info, record_stop_command
from ...tracking.run import Run
from ...words import FACE_VARIABLE, Code, Part, Words, face
from ..job import Job, check_text, launch_options
from ..remote.engine_agents import AgentRequest, StartedAgents, run_with_agents
from .agent_command import CommandPerAgent
from .base import Engine, refuse_hosts
from .batch_commands import BatchCommands
from .batch_follow import Submitted, follow, forget, has_started, log_of, note_failed_start

_EACH = Code(
    'for number in range(4): tfmuster.launch("train.py", number, on=..., wait=False)',
    'for (number in 1:4) launch("train.R", number, on = ..., wait = FALSE)',
    "for number in 1 2 3 4; do tfmuster launch [OPTIONS] --detach train.py $number; done",
)


@dataclass(frozen=True)
class BatchEngine(BatchCommands, Engine):
    """An engine whose jobs wait until a batch system has machines for them.

    The user's options are those of the command that submits, each with its value.
    """

    where: Started = field(default_factory=Started)

    #: How a user asks for certain machines.
    CHOOSING_HOSTS: ClassVar[str | Part]
    #: What runs the batch script, and how its lines for the batch system begin.
    SHELL: ClassVar[str] = "/bin/sh"
    MARK: ClassVar[str]
    #: The option with a job's name, the name's greatest length, and options that all jobs have.
    NAMED: ClassVar[tuple[str, int]]
    OPTIONS: ClassVar[tuple[str, ...]] = ()
    #: What an option that makes an array of jobs begins with, a pattern.
    ARRAY: ClassVar[str]
    #: Inside a job: how to ask for more slots, and signals that agents ignore because the launcher handles
    #: them.
    MORE_SLOTS: ClassVar[str] = ""
    IGNORED: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        fix = Words("Leave them out; {} asks for some.", self.CHOOSING_HOSTS)
        refuse_hosts(self.where, f"{self.title} chooses the nodes.", fix)
        for option in self.where.backend_options:
            check_line(option, f"option of {self.SUBMIT[0]}", start="-")
            if re.search(rf"(?:^|\s)(?:{self.ARRAY})", option):
                raise LaunchError(
                    "A batch job must be one run.",
                    found=f"{option}, which makes an array of jobs, all in one run directory",
                    fix=Words("Launch a run for each element, and give its number to the program: {}", _EACH),
                    reason="array",
                )

    @property
    def is_inside(self) -> bool:
        """Whether this process runs in a batch job already."""
        return self.SYSTEM.batch_job(os.environ) is not None

    @property
    def slots(self) -> int | None:
        """For how many tasks there is room, inside a batch job."""
        return self.slots_inside() if self.is_inside else None

    def slots_inside(self) -> int | None:
        """Return for how many tasks the batch system has given machines to this process."""
        return len(self.slot_hosts())

    def slot_hosts(self) -> list[str]:
        """Return the host of each slot of the job."""
        assert isinstance(self.SYSTEM, SlotSystem)
        return self.SYSTEM.slot_hosts(os.environ)

    def as_options(self) -> list[str]:
        """See :class:`.base.Engine`."""
        return [f"--backend={self.name}", *self.where.on_command_line()]

    def run(self, job: Job, *, show: str = "all", tell: bool = False) -> tuple[Run, Failure | None]:
        """See :class:`.base.Engine`."""
        if self.is_inside:
            try:
                return self.run_inside(job, show=show, tell=tell)
            except TfmusterError as error:
                if job.run_dir is not None and Run(job.run_dir).info():
                    note_failed_start(Run(job.run_dir), error, self.name)
                raise
        return follow(self._submit(job), show=show, tell=tell)

    def run_inside(self, job: Job, *, show: str, tell: bool) -> tuple[Run, Failure | None]:
        """Run a job on the machines of the batch job in which this process is."""
        return run_with_agents(job, self.where, self.start, show=show, tell=tell)

    def start(self, request: AgentRequest) -> StartedAgents:
        """Start an agent on each slot of the batch job, in the order of the slots."""
        # The batch script runs on the first host.
        hosts = self.slot_hosts()
        if request.count > len(hosts):
            raise LaunchError(
                "The job must have a slot for every task.",
                found=f"{request.count} tasks, and {len(hosts)} slots on {', '.join(dict.fromkeys(hosts))}",
                fix=Words("{}, or start fewer workers ({}).", self.MORE_SLOTS, Hint("workers")),
                reason="slots",
            )
        remote_shell = [self.program(self.REMOTE_SHELL[0]), *self.REMOTE_SHELL[1:]]
        shells = [
            # Some systems count the batch script itself as the first task of its host.
            ["/bin/sh", "-c"] if host == hosts[0] else [*remote_shell, host]
            for host in hosts[: request.count]
        ]
        python = self.where.remote_python or python_executable()
        return CommandPerAgent(request, shells, python, partial(self.explain, request.count), self.IGNORED)

    def explain(self, count: int, text: str, lines: str) -> TfmusterError:
        """Return why not all agents have started; see :class:`.agent_command.AgentCommand`."""
        return LaunchError(
            f"{self.title} must start {count} processes.",
            found=lines,
            fix=f"See that `{' '.join(self.REMOTE_SHELL)} HOST hostname` works in a job, with its hosts.",
            reason="batch",
        )

    def submit(self, job: Job) -> Run | None:
        """See :class:`.base.Engine`."""
        return None if self.is_inside else self._submit(job).run

    def _submit(self, job: Job) -> Submitted:
        if SUBMITTED_VARIABLE in os.environ:
            # A launcher that does not recognize its own batch job would submit another one, and so on.
            raise LaunchError(
                f"A launcher in a batch job must find the variables of {self.title}.",
                found="none of them in its environment",
                fix="See that the nodes' start files leave the job's environment as it is.",
                reason="batch",
            )
        claim = claim_run_dir(job.run_name, job.run_dir)
        try:
            return self._submit_in(Run(claim.path), job)
        finally:
            claim.release()

    def _submit_in(self, run: Run, job: Job) -> Submitted:
        resumed = has_started(run)
        if resumed and not resumes(run.path, job.command):
            raise not_new(run.path)
        for name in self.commands:
            self.program(name)
        self.check_room(job)
        script = self.script(job, run)
        if not resumed:
            about = {"name": run.name, "command": list(job.command), "cluster": {}, "started": utc_now()}
            about["launch"] = job.launched()
            # No machine has its launcher yet.
            record_info(run.path, {**about, "directory": os.getcwd(), "host": ""})
        job.record(run)
        try:
            number = self.submit_script(script, {**os.environ, **job.env})
        except BaseException:
            if not resumed:
                forget(run)
            raise
        # Not into run.json, which the launcher may be writing now.
        record_stop_command(run.path, [self.SYSTEM.STOP, number])
        return Submitted(self, number, run)

    def check_room(self, job: Job) -> None:
        """Raise LaunchError for a job that would wait for ever, because there are not so many machines."""
        return

    def script(self, job: Job, run: Run | None = None) -> str:
        """Return the batch script, which may be submitted repeatedly without a run directory."""
        inner = replace(self, where=self.where.changed(backend_options=()))
        options = [*launch_options(job, run), *inner.as_options()]
        tfmuster = run_module("tfmuster", self.where.remote_python)
        command = [*tfmuster, "launch", "--quiet", *options, "--", *job.command]
        log = None if run is None else log_of(run, self.name)
        lines = [f"#!{self.SHELL}", *(f"{self.MARK} {option}" for option in self.directives(job, log))]
        lines += self.enter(log)
        lines.append(f"export {SUBMITTED_VARIABLE}={self.name} {FACE_VARIABLE}={face()}")
        if root := package_root():
            lines.append(f'export PYTHONPATH={shlex.quote(root)}"${{PYTHONPATH:+:$PYTHONPATH}}"')
        return "\n".join([*lines, *self.body(command), ""])

    def directives(self, job: Job, log: Path | None) -> list[str]:
        """Return the options of the batch system in the script, which ask for machines.

        `log` is for what the batch job itself writes; None leaves that to the batch system.
        """
        option, longest = self.NAMED
        lines = [f"{option} {safe_name(job.run_name, longest)}", *self.OPTIONS]
        if log is not None:
            # The script writes the log itself: some paths have a meaning for the batch system.
            lines.append("-o /dev/null")
        return [*lines, *self.machines(job)]

    def machines(self, job: Job) -> list[str]:
        """Return the options that ask for a slot for each task, and the user's options."""
        return list(self.where.backend_options)

    def enter(self, log: Path | None) -> list[str]:
        """Return the lines that follow, for a system whose options can't name every directory and file."""
        lines = [f"cd {shlex.quote(os.getcwd())} || exit"]
        return [*lines, f"exec >{shlex.quote(str(log))} 2>&1"] if log else lines

    def body(self, command: Sequence[str]) -> list[str]:
        """Return the lines that run the launcher."""
        return [f"exec {shlex.join(command)}"]


def safe_name(name: str, longest: int) -> str:
    """Return a name in the characters that every batch system takes: a letter first, no blanks."""
    name = re.sub(r"[^A-Za-z0-9_.-]+", "_", name)
    return (name if name[:1].isalpha() else f"run{name}")[:longest]


def check_line(text: str, what: str, *, start: str = "", without: str = "") -> None:
    """Raise LaunchError unless it is one line that begins with `start` and has no character of `without`."""
    check_text(text)
    bad = any(ord(character) < 32 or character in without for character in text)
    if bad or not text.startswith(start):
        characters = f" or {without}" if without else ""
        begin = f", and must start with {start}" if start else ""
        raise LaunchError(
            f"The {what} must be one line without control characters{characters}{begin}.",
            found=ascii(text),
            reason="text",
        )

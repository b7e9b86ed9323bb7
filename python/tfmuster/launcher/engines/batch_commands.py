"""The commands of a batch system: submit and end a job, and ask for its state and how it ended."""

from __future__ import annotations

import abc
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from ...cluster.resolvers.batch import BatchSystem
from ...errors import LaunchError
from ...system.ask import Answer, NoAnswerError, ask
from ...words import Code, Words
from .base import UnavailableError, find_program

#: How long a batch system may take to accept a job, or to accept that it is to end, seconds.
SUBMIT_SECONDS = 60.0
#: How long it may take to answer a question about a job, seconds.
_ANSWER_SECONDS = 10.0
_DOCTOR = Code("tfmuster doctor", "tfmuster_doctor()", "tfmuster doctor")


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
    """What a batch system says of a job, and why it waits or is stuck, in its own words."""

    phase: Phase
    why: str = ""


def phases(**words: str) -> Mapping[str, Phase]:
    """Return which phase each word means, as in ``phases(waiting="PEND WAIT", over="DONE EXIT")``."""
    return {word: Phase(phase) for phase, text in words.items() for word in text.split()}


class BatchCommands(abc.ABC):
    """A batch system as its commands show it. A subclass has their words, and reads what they print."""

    #: What it tells the processes of its jobs, and its names.
    SYSTEM: ClassVar[BatchSystem]
    #: The command that takes a batch script on its standard input. What it prints has the job's number.
    SUBMIT: ClassVar[tuple[str, ...]]
    NUMBER: ClassVar[str]
    #: The command that prints the state of the job whose number follows.
    STATE: ClassVar[tuple[str, ...]]
    #: The text or the exit code by which that command says that it knows the job no longer.
    GONE: ClassVar[str]
    GONE_CODES: ClassVar[tuple[int, ...]] = ()
    #: What its words for states mean, by `phases`. A job in any other state runs.
    PHASES: ClassVar[Mapping[str, Phase]]
    #: Other commands that submitting needs.
    MORE_COMMANDS: ClassVar[tuple[str, ...]] = ()
    #: Inside a job: the command that runs a line of shell on a host.
    REMOTE_SHELL: ClassVar[tuple[str, ...]] = ()
    #: How to get the commands, and what answers them.
    INSTALL: ClassVar[str]
    SERVER: ClassVar[str]
    #: What helps a user whose job was refused.
    CHECK: ClassVar[str]

    @property
    def name(self) -> str:
        """The name of ``--backend``."""
        return self.SYSTEM.BACKEND

    @property
    def title(self) -> str:
        """The name in texts."""
        return self.SYSTEM.NAME

    @property
    def commands(self) -> tuple[str, ...]:
        """Commands that must be on PATH where jobs are submitted."""
        return (self.SUBMIT[0], self.STATE[0], self.SYSTEM.STOP, *self.MORE_COMMANDS)

    def program(self, name: str) -> str:
        """Return the path of a command. Raises LaunchError if it is not on PATH."""
        path = shutil.which(name)
        if path is None:
            raise LaunchError(
                f"The backend {self.name} needs {self.title}'s commands.",
                found=f"no {name} on PATH",
                fix="Run it on a machine from which jobs are submitted.",
                reason="batch",
            )
        return path

    def ask(self, *command: str, seconds: float = _ANSWER_SECONDS) -> Answer | None:
        """Return what a command prints; None if it does not answer."""
        try:
            return ask(self.program(command[0]), *command[1:], seconds=seconds)
        except NoAnswerError:
            return None

    def submit_script(self, script: str, env: Mapping[str, str]) -> str:
        """Submit a batch script, and return the job's number."""
        try:
            answer = self.answer_to(script, env)
        except NoAnswerError as error:
            found = str(error)
        else:
            if not answer.code and (number := self.number_of(answer.output)) is not None:
                return number
            found = answer.errors.strip() or answer.output.strip() or f"exit code {answer.code}"
        raise LaunchError(
            f"{self.title} must take the job.",
            found=found,
            fix=Words("`{}` says whether {} answers. {}", _DOCTOR, self.title, self.CHECK),
            reason="batch",
        )

    def answer_to(self, script: str, env: Mapping[str, str]) -> Answer:
        """Return what the submitting command prints. Raises NoAnswerError if it takes too long."""
        name, *options = self.SUBMIT
        return ask(self.program(name), *options, seconds=SUBMIT_SECONDS, env=env, input=script)

    def number_of(self, text: str) -> str | None:
        """Return the job's number in what the submitting command prints, or None."""
        match = re.search(self.NUMBER, text)
        return match[1] if match else None

    def end_job(self, number: str) -> None:
        """Ask the batch system to end a job."""
        self.ask(self.SYSTEM.STOP, number, seconds=SUBMIT_SECONDS)

    def state(self, number: str) -> JobState:
        """Return what the batch system says of a job."""
        answer = self.ask(*self.STATE, number)
        if answer is None:
            return JobState(Phase.UNKNOWN)
        if answer.code:
            # A job that is long over is no longer known, which is an answer.
            gone = answer.code in self.GONE_CODES or self.GONE in answer.errors + answer.output
            return JobState(Phase.OVER if gone else Phase.UNKNOWN)
        word, why = self.word_for(number, answer.output)
        phase = self.PHASES.get(word, Phase.RUNNING)
        return JobState(phase, why if phase in (Phase.WAITING, Phase.STUCK) else "")

    @abc.abstractmethod
    def word_for(self, number: str, text: str) -> tuple[str, str]:
        """Return a job's state in what `STATE` prints: a word, and why it is so, which may be empty."""

    def ending(self, number: str, host: str) -> str:
        """Return the batch system's words for how a job has ended; "" if it does not say.

        `host` is where its launcher has run; "" if it has not started.
        """
        return ""

    def available(self, seconds: float) -> str:
        """Return the batch system's version. Raises UnavailableError if it can't be used here."""
        for name in (*self.commands, *self.REMOTE_SHELL[:1]):
            find_program(name, self.INSTALL)
        try:
            return self.version(seconds)
        except NoAnswerError as why:
            raise UnavailableError(f"{self.SUBMIT[0]} is here, but no {self.SERVER} answers ({why})") from why

    @abc.abstractmethod
    def version(self, seconds: float) -> str:
        """Return the version. Raises NoAnswerError, with why, if no server answers."""

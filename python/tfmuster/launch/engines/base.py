"""``Engine``, and ``Where`` a user wants a job to run."""

from __future__ import annotations

import abc
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...system.ask import Answer, NoAnswerError, ask

if TYPE_CHECKING:
    from ...runs.failure import Failure
    from ...runs.run import Run
    from ..job import Job


@dataclass(frozen=True, kw_only=True)
class Where:
    """Where a job is to run, as its user says it; see :func:`tfmuster.launch.launch` for the fields."""

    backend: str | None = None
    hosts: str | None = None
    hostfile: str | os.PathLike[str] | None = None
    copy: bool = False
    files: Sequence[str | os.PathLike[str]] = ()
    remote_python: str | None = None
    ssh_config: str | os.PathLike[str] | None = None
    addresses: Mapping[str, str] = field(default_factory=dict)
    backend_options: Sequence[str] = ()
    master: str | None = None
    spark: Any = None

    def sent_options(self) -> list[str]:
        """As options of ``tfmuster launch``: what is sent to other machines, and the Python there."""
        options = ["--copy"] if self.copy else []
        options += [f"--file={os.fspath(path)}" for path in self.files]
        return options + ([f"--remote-python={self.remote_python}"] if self.remote_python else [])


@dataclass(frozen=True)
class Engine(abc.ABC):
    """What takes jobs to one kind of place: local processes, ssh, Spark, Slurm, MPI.

    Each engine is a module of this package with a subclass of this one and two functions:
    ``of(where) -> Engine``, which raises LaunchError for settings that have no meaning for it, and
    ``available(seconds) -> str``, which tells a version, or raises `UnavailableError`. Its constant ``READS``
    has the names of the fields of `Where` that it reads beside those that all engines read.

    Attributes
    ----------
    where : Where
        What the user has asked for.
    """

    where: Where = field(default_factory=Where)

    @property
    def slots(self) -> int | None:
        """How many tasks it has room for; None if that is not known beforehand."""
        return None

    @abc.abstractmethod
    def as_options(self) -> list[str]:
        """The same engine as options of ``tfmuster launch``."""

    @abc.abstractmethod
    def run(self, job: Job, *, show: str = "all", tell: bool = False) -> tuple[Run, Failure | None]:
        """Run a job to its end.

        Parameters
        ----------
        job : Job
            What to run.
        show : str
            Whose lines to show: ``"all"``, ``"chief"`` or ``"nothing"``.
        tell : bool
            Whether to say on stderr what is started, and where.

        Returns
        -------
        Run, Failure or None
            Its run directory, and the first failure of its last attempt.

        Raises
        ------
        LaunchError
            It could not be started.
        """

    def submit(self, job: Job) -> Run | None:
        """Hand a job to a batch system, which runs it without this process; None if there is none to ask.

        Raises
        ------
        LaunchError
            The batch system does not accept it.
        """
        return None


class UnavailableError(Exception):
    """Something that an engine needs is missing. The text says what, and what to do."""


def find_program(name: str, fix: str) -> str:
    """The path of a program. Raises UnavailableError, with the fix, if it is not on PATH."""
    path = shutil.which(name)
    if path is None:
        raise UnavailableError(f"{name} is not on PATH ({fix})")
    return path


def answer_of(*command: str, seconds: float) -> Answer:
    """What a program answers within a time. Raises UnavailableError if it does not."""
    try:
        return ask(*command, seconds=seconds)
    except NoAnswerError as error:
        raise UnavailableError(str(error)) from error


def version_of(*command: str, seconds: float) -> Answer:
    """What a program answers if it succeeds within a time. Raises UnavailableError if it does not."""
    answer = answer_of(*command, seconds=seconds)
    if answer.code:
        raise UnavailableError(f"{' '.join(command)} fails ({answer.first_line})")
    return answer

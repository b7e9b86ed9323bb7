"""Define the interface of all engines."""

from __future__ import annotations

import abc
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...errors import LaunchError
from ...options.table import Place
from ...system.ask import Answer, NoAnswerError, ask

if TYPE_CHECKING:
    from ...tracking.failure.failure import Failure
    from ...tracking.run import Run
    from ..job import Job


@dataclass(frozen=True)
class Engine(abc.ABC):
    """Runs jobs in one kind of place: local processes, ssh, Spark, Slurm, MPI.

    Each engine is a module of this package with a subclass of this class and two functions:

    - ``of(where) -> Engine`` makes the engine. It raises LaunchError for settings that it does not support.
    - ``available(seconds) -> str`` returns a version, or raises `UnavailableError`.

    The class of the user's settings, which has the name of the module as ``backend``, is in
    :mod:`tfmuster.options.table`.

    Attributes
    ----------
    where : Place
        The user's settings.
    """

    where: Any = field(default_factory=Place)

    @property
    def slots(self) -> int | None:
        """Number of tasks that fit; None if that is not known in advance."""
        return None

    @abc.abstractmethod
    def as_options(self) -> list[str]:
        """Return the engine as options of ``tfmuster launch``."""

    def again(self) -> list[str] | None:
        """Return `as_options`; None if another process can't start a job here."""
        try:
            return self.as_options()
        except LaunchError:
            return None

    @abc.abstractmethod
    def run(self, job: Job, *, show: str = "all", tell: bool = False) -> tuple[Run, Failure | None]:
        """Run a job to its end.

        Parameters
        ----------
        job : Job
            What to run.
        show : str
            Output to show: ``"all"``, ``"chief"`` or ``"nothing"``.
        tell : bool
            Whether to print to stderr what is started, and where.

        Returns
        -------
        Run, Failure or None
            The run, and the first failure of its last attempt.

        Raises
        ------
        LaunchError
            If the job can't be started.
        """

    def submit(self, job: Job) -> Run | None:
        """Submit a job to a batch system, which runs it without this process.

        Returns
        -------
        Run or None
            The run; None if the engine has no batch system.

        Raises
        ------
        LaunchError
            If the batch system does not accept the job.
        """
        return None


def refuse_hosts(where: Place, message: str, fix: str) -> None:
    """Raise LaunchError if the user names machines of an engine that chooses them itself."""
    hosts = where.hosts or where.hostfile
    if hosts or where.addresses:
        raise LaunchError(message, found=f"hosts {hosts}" if hosts else "--address", fix=fix, reason="hosts")


class UnavailableError(Exception):
    """An engine lacks something that it needs. The text says what is missing and how to install it."""


def find_program(name: str, fix: str) -> str:
    """Return the path of a program. Raises UnavailableError with the fix if it is not on PATH."""
    path = shutil.which(name)
    if path is None:
        raise UnavailableError(f"{name} is not on PATH ({fix})")
    return path


def version_of(*command: str, seconds: float) -> Answer:
    """Return what a program prints if it succeeds within a time limit. Otherwise raises UnavailableError."""
    try:
        answer = ask(*command, seconds=seconds)
    except NoAnswerError as error:
        raise UnavailableError(str(error)) from error
    if answer.code:
        raise UnavailableError(f"{' '.join(command)} fails ({answer.first_line})")
    return answer

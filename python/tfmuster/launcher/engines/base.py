"""The interface of all engines. Find engines by name, and check which of them can be used on this machine."""

from __future__ import annotations

import abc
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from ...errors import LaunchError
from ...options.hints import Hint
from ...options.places import BACKENDS, PLACES, Local, Place, Ssh
from ...options.table import ROWS
from ...system.ask import Answer, NoAnswerError, ask
from ...tracking.failure.failure import Failure
from ...tracking.run import Run
from ...words import Value, Words, choice
from ..job import Job
from .hosts import Host

#: Time limit of each engine's availability check, in seconds.
ANSWER_SECONDS = 5.0


@dataclass(frozen=True)
class Engine(abc.ABC):
    """Runs jobs in one kind of place: local processes, ssh, Spark, Slurm, MPI.

    Each engine is a module of this package with a subclass of this class and two functions:

    - ``make_engine(where) -> Engine`` raises LaunchError for settings that it does not support.
    - ``available(seconds) -> str`` returns a version, or raises `UnavailableError`.

    The class of the user's settings, which has the name of the module as ``backend``, is in
    :mod:`tfmuster.options.table`.
    """

    where: Place = field(default_factory=Place)
    #: Filled in this order. If empty, the engine chooses.
    hosts: Sequence[Host] = ()

    @property
    def slots(self) -> int | None:
        """Number of tasks that fit; None if that is not known in advance."""
        return sum(host.slots for host in self.hosts) or None

    @abc.abstractmethod
    def as_options(self) -> list[str]:
        """Return the engine as options of ``tfmuster launch``."""

    def job(self, command: Sequence[str], *, workers: int | None = None, **settings: Any) -> Job:
        """Make the job that runs a program here, by default with a worker for each slot that others leave."""
        try:
            where = self.as_options()
        except LaunchError:
            # Another process can't start a job here.
            where = None
        if workers is None and self.slots:
            workers = max(1, self.slots - settings["ps"] - settings["chief"] - settings["evaluator"])
        return Job(command, where=where, place=self.where, workers=workers, **settings)

    @abc.abstractmethod
    def run(self, job: Job, *, show: str = "all", tell: bool = False) -> tuple[Run, Failure | None]:
        """Run a job to its end. Return the run, and the first failure of its last attempt.

        `show` is the output to show: ``"all"`` (lines that all tasks print alike once), ``"each"`` (each line
        of each task), ``"chief"`` or ``"nothing"``. With `tell`, stderr says what is started, and where.
        Raises LaunchError, with the problems of all hosts, if the job can't be started.
        """

    def submit(self, job: Job) -> Run | None:
        """Submit a job to a batch system, which runs it without this process. Return None without one.

        Raises LaunchError if the batch system does not accept the job.
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


def place_for(backend: str | None, settings: Mapping[str, object]) -> Place:
    """Return the place of an engine by its name, with the settings that it knows.

    Raises LaunchError for an unknown engine or setting (reason ``backend``), and for a value that is refused.
    """
    has_hosts = any(settings.get(name) is not None for name in ("hosts", "hostfile", "hosts_from"))
    name = backend or (Ssh if has_hosts else Local).backend
    place = next((place for place in PLACES if place.backend == name), None)
    if place is None:
        raise LaunchError(
            Words("There is no backend {}.", Value(name)), fix=choice(name, BACKENDS), reason="backend"
        )
    known: dict[str, Any] = {}
    for setting, value in settings.items():
        if setting in place.ROWS:
            known[setting] = value
        elif value and value != ROWS[setting].default and not ROWS[setting].else_ignored:
            # If the setting were ignored, the job would run differently than its user expects.
            *others, last = (place.backend for place in PLACES if setting in place.ROWS)
            readers = f"{', '.join(others)} or {last}" if others else last
            raise LaunchError(
                Words("{} needs a backend that reads it.", Hint(setting)),
                found="no backend" if backend is None else f"the backend {name}",
                fix=f"Choose the backend {readers}, or leave the setting out.",
                reason="backend",
            )
    return place(**known)


def engine_for(place: Place) -> Engine:
    """Make the engine of a place. Raises LaunchError if it does not support the settings."""
    engine: Engine = _module(place.backend).make_engine(place)
    return engine


def availability(timeout: float = ANSWER_SECONDS) -> dict[str, str]:
    """Check which engines can be used, and Kubernetes: ``yes`` with what was found, or ``no`` and why.

    `timeout` is the time limit of each check, in seconds. The checks run at the same time.
    """
    from concurrent.futures import ThreadPoolExecutor

    checks = {name: _module(name).available for name in BACKENDS}
    checks["kubernetes"] = _kubectl

    def answer(check: Callable[[float], str]) -> str:
        try:
            version = check(timeout)
        except UnavailableError as problem:
            return f"no: {problem}"
        return f"yes: {version}" if version else "yes"

    with ThreadPoolExecutor(len(checks)) as pool:
        return dict(zip(checks, pool.map(answer, checks.values()), strict=True))


def _kubectl(seconds: float) -> str:
    """Return the path of kubectl, which applies manifests."""
    return find_program("kubectl", "manifests can be printed here, and applied on a machine with kubectl")


def _module(name: str) -> Any:
    return import_module(f".{name}", __package__)

"""``Engine``, and ``Where`` a user wants a job to run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

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


class Engine(Protocol):
    """What takes jobs to one kind of place."""

    @property
    def slots(self) -> int | None:
        """How many tasks it has room for; None if that is not known beforehand."""

    def as_options(self) -> list[str]:
        """The same engine as options of ``tfmuster launch``."""

    def run(self, job: Job, *, show: str = "all", tell: bool = False) -> tuple[Run, Failure | None]:
        """Run a job to its end; its run directory, and the first failure of its last attempt.

        Parameters
        ----------
        job : LocalJob
            What to run.
        show : str
            Whose lines to show: ``"all"``, ``"chief"`` or ``"nothing"``.
        tell : bool
            Whether to say on stderr what is started, and where.

        Raises
        ------
        LaunchError
            It could not be started.
        """

"""Place the workers of a job on other machines, through the system's ssh.

Nothing but the path of a Python is ever part of a command that a remote shell reads: the program, its
arguments, directories, files, the environment and the job's token go over ssh's input, to :mod:`.agent`.
One connection per worker asks everything first, then carries the worker (:mod:`.remote`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..rendezvous import start_timeout
from ..runs import Run
from .failure import Failure
from .files import script_to_send
from .hosts import place_tasks
from .local import LocalJob
from .remote import Errand, Place, run_remote
from .restarting import Attempt, with_restarts
from .ssh_options import SshOptions


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
        where = self.where
        if where.copy:
            # What can't be sent is not to be missed there.
            script_to_send(Path(job.command[0]))
        tasks = place_tasks(job.sizes(), where.hosts)
        seconds = start_timeout(job.start_timeout)

        def once(attempt: Attempt) -> tuple[Run, Failure | None]:
            names = {host.name: where.names(host) for host in dict.fromkeys(host for *_, host in tasks)}
            places = [
                Place(kind, host.name, {"ssh": where.agent_command(host, seconds), "host": host.target})
                for kind, _, host in tasks
            ]
            errand = Errand(job, attempt, where.copy, where.files)
            return run_remote(errand, places, names, show=show, tell=tell)

        return with_restarts(once, job.max_restarts, tell=show != "nothing")

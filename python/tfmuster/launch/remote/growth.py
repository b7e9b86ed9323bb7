"""Find hosts with which a job that runs could have more workers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from ...errors import LaunchError
from ...system.say import say
from ..engines.hosts import Host


class Growth(threading.Thread):
    """Asks for hosts from time to time, until there are some with new slots.

    Parameters
    ----------
    hosts : callable
        Returns the hosts of the moment. It may raise LaunchError, which is printed.
    every : float
        Seconds between two questions.
    present : mapping
        Number of workers on each host of the attempt that runs.
    most : int
        Number of workers that the job may have.
    reachable : callable
        Whether a host can be asked to take part.
    """

    def __init__(
        self,
        hosts: Callable[[], Sequence[Host]],
        every: float,
        present: dict[str, int],
        most: int,
        reachable: Callable[[Host], bool],
    ) -> None:
        super().__init__(name="tfmuster-growth", daemon=True)
        self._hosts, self._every, self._most, self._reachable = hosts, every, most, reachable
        self._present = present
        self._ended = threading.Event()
        self._found = ""

    def found(self) -> str:
        """Return the names of the hosts with new slots, or nothing."""
        return self._found

    def end(self) -> None:
        """Ask no more."""
        self._ended.set()

    def run(self) -> None:
        """Ask until there are new slots."""
        said = ""
        while not self._found and not self._ended.wait(self._every):
            try:
                hosts = self._hosts()
            except LaunchError as error:
                if said != (said := f"tfmuster: {error.message.rstrip('.')}: {error.found}"):
                    say(said)
                continue
            self._found = ", ".join(host.name for host in self._more(hosts) if self._reachable(host))

    def _more(self, hosts: Sequence[Host]) -> list[Host]:
        """Return the hosts with new slots, unless there are others fewer."""
        listed = {host.name: host.slots for host in hosts}
        if any(listed.get(name, 0) < count for name, count in self._present.items()):
            # A host that is not listed any more still works. Its loss is a failure, if it comes.
            return []
        if sum(self._present.values()) >= self._most:
            return []
        return [host for host in hosts if host.slots > self._present.get(host.name, 0)]

"""Keep an agent on each host, with a process that has imported TensorFlow, for the next attempt of a job.

An agent has one worker. So while an attempt runs, its hosts get a second agent and connection for each
worker, which wait. At a restart, those that are still connected become the ones of the new attempt, and
neither the connection nor the import takes any time then. Hosts without one are connected as usual.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ....system.processes import forget_helper, note_helper
from ...supervise.worker_process import Placement
from .proxy_process import ProxyProcess, end_proxies

#: Starts the proxy of a spare agent, given the name by which it is found.
Start = Callable[[str], ProxyProcess]


class SpareAgents:
    """The spare agents of a job. Use it in a ``with`` block, at whose end they end.

    Attributes
    ----------
    wanted : bool
        Whether `prepare` starts agents: not for the last attempt of a job.
    name : str
        Name by which the processes of the next attempt are found, these among them.
    """

    def __init__(self) -> None:
        self.wanted = False
        self.name = secrets.token_hex(16)
        self._starts: Sequence[Start] = ()
        self._waiting: list[ProxyProcess] = []

    def __enter__(self) -> SpareAgents:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def plan(self, starts: Sequence[Start]) -> None:
        """Say how the agents of the attempt that begins are started."""
        self._starts = starts

    def prepare(self, placements: Iterable[Placement]) -> None:
        """Start the agents, without waiting for them."""
        if not self.wanted:
            return
        self.close()
        self.name = secrets.token_hex(16)
        self.give_back([start(self.name) for start in self._starts])

    def refill(self, placements: Iterable[Placement]) -> None:
        """Do nothing: they are for one attempt."""

    def take(self, placement: Placement) -> None:
        """Return None: an agent starts the worker."""

    def check(self) -> None:
        """End those that are not connected any more, or not yet."""
        # The host of one without a hello may be cut off. If it is not, a new agent is as fast.
        gone = [remote for remote in self._waiting if not remote.has_hello()]
        for remote in gone:
            remote.close()
        greeted = [remote for remote in self._waiting if remote not in gone]
        for remote in greeted:
            remote.ask_whether_connected()
        gone += [remote for remote in greeted if not remote.is_connected()]
        self._waiting = [remote for remote in greeted if remote not in gone]
        self._end(gone)

    def take_for(self, given: Mapping[str, Any]) -> ProxyProcess | None:
        """Return the proxy of an agent that was asked the same; None if there is none."""
        for remote in self._waiting:
            if remote.was_asked(given):
                self._waiting.remove(remote)
                forget_helper(remote.process.pid)
                return remote
        return None

    def give_back(self, remotes: Sequence[ProxyProcess]) -> None:
        """Let these wait, from the beginning or because their attempt could not start."""
        for remote in remotes:
            note_helper(remote.process.pid)
        self._waiting += remotes

    def waits_for(self, name: str) -> bool:
        """Whether some of them have this name."""
        return name == self.name and bool(self._waiting)

    def close(self) -> None:
        """End those that wait."""
        waiting, self._waiting = self._waiting, []
        self._end(waiting)

    def _end(self, remotes: Sequence[ProxyProcess]) -> None:
        end_proxies(remotes)
        for remote in remotes:
            forget_helper(remote.process.pid)

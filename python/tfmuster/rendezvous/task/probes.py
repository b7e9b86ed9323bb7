"""Try to reach other tasks, and keep the connections to those that train with this one."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from ...cluster.spec import Task
from ...net.channel import Message
from ...net.connections import PENDING_SECONDS, Connection, Connections
from ...net.ports import Resolver
from ...system.limits import fewer_files, open_files
from ...system.terminal_text import bounded_text
from ..error import MAX_LISTED, Entry
from ..links import ALL_PAIRS, Links, number_of_targets


@dataclass(eq=False)
class Probe:
    """A connection to another task, to check whether it can be reached."""

    name: str
    address: str
    since: float
    asked: bool = False


class Probes:
    """The probes of one task, in one round at a time.

    `explain` turns `Connection.why` into words. When a round has ended, `report` is called with its number
    and the problems, as in an error's ``unreachable``.
    """

    def __init__(
        self,
        task: Task,
        connections: Connections,
        resolver: Resolver,
        links: Links,
        *,
        explain: Callable[[str], str],
        report: Callable[[int, list[dict[str, str]]], None],
    ) -> None:
        self._task, self._connections, self._resolver, self._links = task, connections, resolver, links
        self._explain, self._report = explain, report
        self._unstarted: list[Probe] = []
        self._unanswered: set[Probe] = set()
        self._problems: list[dict[str, str]] = []
        self._round = 0
        self._link = False

    @property
    def unstarted(self) -> bool:
        """True while the name of a host is being looked up."""
        return bool(self._unstarted)

    def begin(self, message: Message) -> None:
        """Begin the round that the chief asks for, with ``round``, ``targets`` and ``link``."""
        self._round, self._link = message["round"], bool(message.get("link"))
        names = list(message["targets"])
        chief = self._task.cluster.chief_task().name
        if self._link and self._links.calls(chief):
            names.append(chief)
        now = time.monotonic()
        self._unstarted = [Probe(name, self._address(name), now) for name in names]
        self._unanswered = set(self._unstarted)
        self._problems = []
        self._report_when_done()

    def stop(self) -> None:
        """End the round without a report."""
        self._unstarted.clear()
        self._unanswered.clear()

    def start(self, now: float) -> None:
        """Call the tasks whose addresses are known by now."""
        waiting = []
        for probe in self._unstarted:
            targets = self._resolver.addresses(probe.address)
            if isinstance(targets, list):
                self._connections.call(targets).owner = probe
            elif targets is not None:
                self._answer(probe, targets)
            elif now > probe.since + PENDING_SECONDS:
                self._answer(probe, "looking up its name takes longer than five seconds")
            else:
                waiting.append(probe)
        self._unstarted = waiting

    def handle(self, connection: Connection, probe: Probe, message: Message | None) -> None:
        """Handle what comes from the task, or the end of the connection."""
        if message is None:
            self._answer(probe, self._explain(connection.why))
            return
        if probe.asked and message["type"] == "linked":
            self._links.keep(self._connections, connection, probe.name)
            self._answer(probe, None)
            return
        problem = None
        if message["job"] != self._task.cluster.digest:
            problem = f"{bounded_text(message['task'])} of another cluster answers there"
        elif message["task"] != probe.name:
            problem = f"{bounded_text(message['task'])} answers there"
        elif self._link and self._links.calls(probe.name):
            probe.asked = True
            connection.send({"type": "link", "task": self._task.name})
            return
        self._connections.end(connection, "closed", tell=False)
        self._answer(probe, problem)

    def _address(self, name: str) -> str:
        job, _, index = name.rpartition(" ")
        return self._task.cluster.jobs[job][int(index)]

    def _answer(self, probe: Probe, problem: str | None) -> None:
        if probe not in self._unanswered:
            return
        self._unanswered.discard(probe)
        if problem is not None:
            self._problems.append({"to": probe.name, "reason": problem})
        self._report_when_done()

    def _report_when_done(self) -> None:
        if not self._unanswered:
            self._report(self._round, self._problems[:MAX_LISTED])


def too_few_files(task: Task) -> Entry | None:
    """Return what the rendezvous ``needed`` and is ``allowed``, if this process may not open enough files.

    Each task calls its targets, and is called by them; the chief is called by all.
    """
    tasks = len(task.cluster)
    callers = tasks if task.is_chief or tasks <= ALL_PAIRS else 2
    needed = open_files() + number_of_targets(task) + callers + 16
    allowed = fewer_files(needed)
    return None if allowed is None else {"needed": needed, "allowed": allowed}

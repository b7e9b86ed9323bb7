"""Track for the chief which tasks are expected, present or different, and build the error that says so.

This module uses no sockets and no clock. It limits the length of every text from another process before it
stores or shows it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ...cluster.spec import Cluster, Task
from ...errors import RendezvousError
from ...net.addresses import split_address
from ...net.channel import Message
from ...net.connections import Connection
from ...system.terminal_text import bounded_text
from ..error import MAX_LISTED, MAX_SHOWN, Entry, listed, rendezvous_error
from ..seeding import agreed_seed, read_seed

#: More addresses do not fit into a message. The tasks look up the others by name.
_MOST_PEERS: Final = 1000
#: What the chief's task says when TensorFlow listens there, and the chief tells all.
LISTENING: Final[Message] = {"type": "listening"}


def _entry(value: object) -> Entry | None:
    """Return what a task says of a trouble of its own, or None."""
    if not isinstance(value, dict):
        return None
    return {
        bounded_text(k, 40): v if isinstance(v, int) else bounded_text(v) for k, v in list(value.items())[:4]
    }


def _bounded(texts: Mapping[object, object], most: int) -> dict[str, str]:
    return {bounded_text(k, 40): bounded_text(v, 40) for k, v in list(texts.items())[:most]}


@dataclass(frozen=True)
class Participant:
    """One process that reported to the chief."""

    name: str
    id: str
    host: str
    pid: int
    digest: str
    versions: Mapping[str, str]
    port: Entry | None = None
    limits: Entry | None = None
    origin: str = ""
    links: bool = False
    seed: int | None = None
    generators: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_hello(cls, hello: Message) -> Participant:
        """Read a hello message. Raises ValueError if it is malformed."""
        versions, pid = hello.get("versions"), hello.get("pid")
        if not isinstance(versions, dict) or not isinstance(pid, int):
            raise ValueError("not a hello")
        return cls(
            name=bounded_text(hello.get("task")),
            id=bounded_text(hello.get("id")),
            host=bounded_text(hello.get("host"), 64),
            pid=pid,
            digest=bounded_text(hello.get("digest")),
            versions=_bounded(versions, 16),
            port=_entry(hello.get("port")),
            limits=_entry(hello.get("limits")),
            origin=bounded_text(hello.get("from") or "", 64),
            links=hello.get("links") is True,
            seed=read_seed(hello.get("seed")),
            generators=_bounded(dict(hello.get("generators") or {}), 8),
        )

    @property
    def process(self) -> Entry:
        """The process as the fields of an error."""
        return {"task": self.name, "host": self.host, "pid": self.pid}


@dataclass
class Roster:
    """The chief's knowledge of the tasks of its cluster."""

    task: Task
    versions: Mapping[str, str]
    here: dict[str, Participant] = field(default_factory=dict)
    left: dict[str, Participant] = field(default_factory=dict)
    differences: dict[str, list[str]] = field(default_factory=dict)
    unreachable: list[Entry] = field(default_factory=list)
    strangers: dict[str, str] = field(default_factory=dict)
    #: Tasks that run but can't reach the chief: name -> the reason that they gave when the chief called them.
    cut_off: dict[str, str] = field(default_factory=dict)
    #: Missing tasks whose address another task of the job answers: name -> name of the other task.
    answered_by: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.digest = self.task.cluster.digest
        self.addresses = {task.name: task.address for task in self.task.cluster.tasks()}
        # Updated with every arrival, so that a thousand arrivals do not cost a thousand counts of a thousand.
        self._names: dict[str, set[str]] = {}
        self._twice: set[str] = set()
        self._differing: set[str] = set()

    def arrive(self, participant: Participant) -> None:
        """Add a process that has introduced itself. It may do so again over a new connection."""
        self.here[participant.id] = participant
        ids = self._names.setdefault(participant.name, set())
        ids.add(participant.id)
        if len(ids) > 1:
            self._twice.add(participant.name)
        if self._differs(participant):
            self._differing.add(participant.id)
        for notes in (self.left, self.cut_off, self.answered_by):
            notes.pop(participant.name, None)

    def agreed_seed(self) -> Message:
        """Return what the tasks, once all are here, must know of the seed of their generators."""
        chief = [p.seed for p in self.here.values() if p.name == self.task.name]
        trainers = [p.generators for p in self.here.values() if p.name.startswith(("chief ", "worker "))]
        return agreed_seed(chief[0], trainers)

    def remove(self, id: str) -> None:
        """Remove a process whose connection has ended."""
        participant = self.here.pop(id, None)
        self.differences.pop(id, None)
        if participant is None:
            return
        self._differing.discard(id)
        others = self._names[participant.name]
        others.discard(id)
        if len(others) < 2:
            self._twice.discard(participant.name)
        if not others:
            self.left[participant.name] = participant

    def note_unreachable(self, participant: Participant, problems: list[Entry]) -> None:
        """Add the tasks that a participant could not reach: for each its name, ``to``, and the ``reason``."""
        self.unreachable += [
            {
                "from": participant.name,
                "to": bounded_text(problem["to"], 40),
                "address": self.addresses[problem["to"]],
                "reason": bounded_text(problem["reason"]),
            }
            for problem in problems
        ]

    def missing(self) -> list[str]:
        """Return the names of the tasks that have no process here, in the cluster's order."""
        return [name for name in self.addresses if not self._names.get(name)]

    def fault(self) -> bool:
        """Tell whether something is wrong that waiting can't fix."""
        return bool(self._differing or self._twice or self.unreachable)

    def described(self) -> bool:
        """Tell whether all tasks whose cluster differs have sent their cluster."""
        return all(id in self.differences for id in self._differing if self.here[id].digest != self.digest)

    def complete(self) -> bool:
        """Tell whether as many processes are here as the cluster has tasks, right or wrong."""
        return len(self.here) >= len(self.addresses)

    def progress(self) -> Entry:
        """Return how many tasks have arrived, and the names of the first that are missing."""
        missing, expected = self.missing(), len(self.addresses)
        return {"expected": expected, "arrived": expected - len(missing), "waiting": missing[:MAX_LISTED]}

    def waiting_text(self) -> str:
        """Write one line for the waiting user."""
        missing = self.missing()
        if not missing:
            return f"all {len(self.addresses)} tasks are here"
        chief = self.task.name
        shown = [
            f"{name} ({self.addresses[name]})"
            + (f", which runs but can't reach {chief}: {self.cut_off[name]}" if name in self.cut_off else "")
            for name in missing
        ]
        here = len(self.addresses) - len(missing)
        return f"{here} of {len(self.addresses)} tasks are here; waiting for {listed(shown)}"

    def error(self, seconds: float | None) -> RendezvousError:
        """Build the error of this roster; `seconds` is the time limit if it has passed, else None."""
        by_name: dict[str, list[Participant]] = {}
        for participant in self.here.values():
            by_name.setdefault(participant.name, []).append(participant)
        return rendezvous_error(
            self.task.cluster,
            seconds,
            missing=[
                {"task": name, "address": self.addresses[name]}
                | ({"left": self.left[name].process} if name in self.left else {})
                | ({"answered_by": self.answered_by[name]} if name in self.answered_by else {})
                for name in self.missing()
                if name not in self.cut_off
            ],
            duplicates=[
                {"task": name, "processes": [a.process for a in participants[:MAX_SHOWN]]}
                for name, participants in by_name.items()
                if len(participants) > 1
            ],
            clusters=[
                {**a.process, "differences": self.differences.get(a.id, [])}
                for a in self.here.values()
                if a.digest != self.digest
            ],
            versions=[
                {**a.process, "package": package, "version": version, "expected": expected}
                for a in self.here.values()
                for package, version, expected in self._other_versions(a)
            ],
            limits=[{**a.process, **a.limits} for a in self.here.values() if a.limits],
            # A port held by a duplicate of the same task is not a second fault.
            ports=[
                {**a.process, **a.port}
                for a in self.here.values()
                if a.port and not any(b.pid == a.port.get("holder_pid") for b in by_name[a.name])
            ],
            unreachable=[
                *self.unreachable,
                *(
                    {"from": name, "to": self.task.name, "address": self.task.address, "reason": why}
                    for name, why in self.cut_off.items()
                ),
            ],
            strangers=[{"host": host, "reason": why} for host, why in self.strangers.items()],
        )

    def _other_versions(self, participant: Participant) -> list[tuple[str, str, str]]:
        theirs, ours = participant.versions, self.versions
        triples = [(name, theirs.get(name, "none"), ours.get(name, "none")) for name in {**ours, **theirs}]
        return [triple for triple in triples if triple[1] != triple[2]]

    def _differs(self, participant: Participant) -> bool:
        return bool(
            participant.digest != self.digest
            or participant.port
            or participant.limits
            or self._other_versions(participant)
        )


def cluster_differences(chief: Cluster, theirs: Mapping[str, object]) -> list[str]:
    """List at most five differences between the cluster of another task and the chief's."""
    points: list[str] = []
    for job in dict.fromkeys([*chief.jobs, *theirs]):
        ours = chief.jobs.get(job, ())
        addresses = theirs.get(job)
        other = [bounded_text(a, 100) for a in addresses] if isinstance(addresses, list) else []
        name = bounded_text(job, 40)
        if len(ours) != len(other):
            points.append(f"{len(other)} {name} addresses instead of {len(ours)}")
        points += [
            f"{name}[{i}] is {b} instead of {a}"
            for i, (a, b) in enumerate(zip(ours, other, strict=False))
            if a != b
        ]
    return points[:5]


Clients = Sequence[tuple[Participant, Connection]]


def origins(clients: Clients) -> Message:
    """Return ``peers``, the addresses from which the tasks came, and ``direct``: no gateway lies between.

    A task that knows itself by another address is behind a gateway, which translates ports too.
    """
    direct = all(participant.origin == connection.host for participant, connection in clients)
    seen = {connection.host for _, connection in clients} - {""}
    return {"peers": sorted(seen)[:_MOST_PEERS], "direct": direct}


def pass_on(knock: Message, clients: Clients, addresses: Mapping[str, str], chief: str) -> None:
    """Tell the tasks with this port that a connection to it comes; the chief, if no task has this port."""
    message = {"type": "knock", "from": read_end(knock["from"])}
    port = read_end(knock["to"])[1]
    names = {name for name, address in addresses.items() if split_address(address)[1] == port} or {chief}
    for participant, connection in clients:
        if participant.name in names:
            connection.send(message)


def read_end(value: tuple[object, object]) -> tuple[str, int]:
    """Return an IP address and a port of a message. Raises ValueError if it is malformed."""
    host, port = value
    if not isinstance(port, int) or not 0 < port < 65536:
        raise ValueError("not a port")
    return str(ipaddress.ip_address(str(host))), port

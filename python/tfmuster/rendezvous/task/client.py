"""Run one task's side of the rendezvous: report to the chief, answer other tasks, and try to reach them."""

from __future__ import annotations

import socket
import time
import uuid
from collections.abc import Callable
from typing import Final

from ...cluster.spec import Task
from ...environment import TOKEN_VARIABLE
from ...errors import RendezvousError
from ...net.channel import MAX_PAYLOAD, Message
from ...net.connections import PENDING_SECONDS, Connection, Connections
from ...net.ports import SILENT_SECONDS, Resolver
from ...system.limits import room_for_strangers
from ...tracking.live.states import waiting_state
from ..chief.server import RendezvousServer, Terms
from ..error import rendezvous_error, too_late
from ..failures import this_process
from ..links import Links
from ..seeding import offered_seed
from .probes import Probe, Probes, too_few_files

_RETRY_SECONDS: Final = 0.05
_CALL_SECONDS: Final = 3.0
#: How long a task that can't reach the chief, but is reached by it, waits for its verdict, in seconds.
_VERDICT_SECONDS: Final = 1.5
_PROGRESS_SECONDS: Final = 10.0
_OTHER = "another program than tfmuster answers there, or the job is already running"
#: Meaning of `Connection.why` for a connection to the chief.
_WHY = {
    "not-tfmuster": _OTHER,
    "not-json": _OTHER,
    "too-long": _OTHER,
    "other-protocol": "another version of tfmuster answers there",
    "wrong-token": f"a process with another {TOKEN_VARIABLE} answers there (a task of an earlier job?)",
    "no-token": f"a process without a token answers there; this task has one ({TOKEN_VARIABLE})",
    "needs-token": f"a process with a token answers there; this task has none ({TOKEN_VARIABLE})",
    "hung up": "something there accepts the connection and closes it",
}


class RendezvousClient:
    """One task during the rendezvous.

    The listener of its port lets the others check whether they reach it. It is None for evaluators, for the
    chief, whose thread `chief` has the listener, and if the port is taken: `port_trouble` says why.
    """

    def __init__(
        self,
        task: Task,
        terms: Terms,
        *,
        listener: socket.socket | None,
        port_trouble: Message | None,
        chief: RendezvousServer | None,
        links: Links,
        link: bool,
        on_progress: Callable[[Message], None],
    ) -> None:
        self.task = task
        self.chief = chief
        self.connections = Connections(token=terms.token, pending_limit=room_for_strangers(len(task.cluster)))
        self._to = task.cluster.chief_task()
        self._digest = task.cluster.digest
        self._versions = terms.versions
        self._id = uuid.uuid4().hex
        self._deadline, self._limit = terms.deadline, terms.limit
        self._port_trouble = port_trouble
        self._limits = too_few_files(task)
        self._on_progress = on_progress
        self._resolver = Resolver()
        self._connection: Connection | None = None
        self._why = "no answer yet"
        self._why_until = 0.0
        self._welcome = False
        self._called: Connection | None = None
        self._patience = 0.0
        self._self_call: Connection | None = None
        self._self_checked = chief is None
        self._links, self._link = links, link
        self._probes = Probes(
            task,
            self.connections,
            self._resolver,
            links,
            explain=lambda why: _WHY.get(why, why),
            report=self._report_probes,
        )
        self._next_try = 0.0
        self._next_progress = time.monotonic() + 1.0
        if listener is not None:
            greeting = {"type": "challenge", "task": task.name, "id": self._id, "job": self._digest}
            self.connections.listen(listener, greeting)

    def run(self) -> Message:
        """Block until the chief sends "go". Return what it says. Raises RendezvousError."""
        while True:
            now = time.monotonic()
            self._check_time(now)
            self._reach_chief(now)
            self._probes.start(now)
            for connection, message in self.connections.poll(
                1.0 if self._welcome and not self._probes.unstarted else _RETRY_SECONDS
            ):
                try:
                    go = self._handle(connection, message)
                except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
                    self.connections.end(connection, "not-tfmuster")
                    continue
                if go is not None:
                    return go

    def connection_to_chief(self) -> Connection:
        """Return the connection to the chief, which becomes the control channel."""
        assert self._connection is not None
        return self._connection

    def _check_time(self, now: float) -> None:
        if self._welcome:
            # The chief decides about the deadline. Its silence means that its machine has frozen.
            if now > self._deadline + SILENT_SECONDS:
                raise too_late(self.task, self._limit, "it stopped answering")
            return
        if now > self._deadline + self._patience:
            raise too_late(self.task, self._limit, self._why)
        if now > self._next_progress:
            self._next_progress = now + _PROGRESS_SECONDS
            chief = {"waiting": [self._to.name], "address": self._to.address, "reason": self._why}
            self._on_progress({"text": waiting_state(chief).text, **chief})

    def _reach_chief(self, now: float) -> None:
        if now < self._next_try:
            return
        if self._connection is None and self.chief is not None:
            self._connection = self.connections.adopt(self.chief.local_connection(), caller=True)
        call_chief = self._connection is None
        if not call_chief and (self._self_checked or self._self_call is not None):
            return
        targets = self._resolver.addresses(self._to.address)
        self._next_try = now + _RETRY_SECONDS
        if isinstance(targets, str):
            self._cut_off(targets)
            self._resolver.forget(self._to.address)
        elif targets and call_chief:
            self._connection = self.connections.call(
                targets, seconds=min(_CALL_SECONDS, max(0.5, self._deadline - now))
            )
        elif targets:
            self._self_call = self.connections.call(targets, seconds=PENDING_SECONDS)

    def _cut_off(self, why: str) -> None:
        """Note why the chief can't be reached now, and tell it if it has called."""
        self._welcome = False
        now = time.monotonic()
        if why in _WHY:
            self._why, self._why_until = _WHY[why], now + _CALL_SECONDS
        elif now > self._why_until:
            # An earlier answer from there says more than no answer a moment later.
            self._why = why
        self._tell_trouble()
        if self.task.is_chief and self.chief is None and self._port_trouble:
            port = {"task": self.task.name, **this_process(), **self._port_trouble}
            raise rendezvous_error(self.task.cluster, None, ports=[port])

    def _tell_trouble(self) -> None:
        if self._called is not None:
            left = self._deadline - time.monotonic()
            self._called.send({"type": "trouble", "reason": self._why, "left": left, "limit": self._limit})

    def _handle(self, connection: Connection, message: Message | None) -> Message | None:
        if connection is self._connection:
            return self._handle_chief(connection, message)
        if connection is self._self_call:
            self._handle_self(connection, message)
        elif isinstance(connection.owner, Probe):
            self._probes.handle(connection, connection.owner, message)
        elif message is not None and message["type"] == "link":
            self._links.accept(self.connections, connection, message)
        elif message is not None and message["type"] == "called":
            # The chief reaches this task, which can't reach the chief: the verdict arrives here.
            self.connections.keep(connection)
            self._patience = _VERDICT_SECONDS
            self._called = connection
            self._tell_trouble()
        elif message is not None and message["type"] == "verdict" and not self._welcome:
            raise _verdict(message)
        return None

    def _handle_chief(self, connection: Connection, message: Message | None) -> Message | None:
        if message is None:
            self._connection = None
            self._probes.stop()
            self._next_try = time.monotonic() + _RETRY_SECONDS
            self._cut_off(connection.why)
            return None
        kind = message["type"]
        if kind == "challenge":
            now = time.monotonic()
            connection.send(
                {
                    "type": "hello",
                    "task": self.task.name,
                    "id": self._id,
                    **this_process(),
                    "from": connection.own_host(),
                    "digest": self._digest,
                    "versions": self._versions,
                    **offered_seed(),
                    "port": self._port_trouble,
                    "limits": self._limits,
                    "links": self._link,
                    "left": self._deadline - now,
                    "limit": self._limit,
                }
            )
        elif kind == "welcome":
            self._welcome = True
            self.connections.keep(connection)
        elif kind == "describe":
            cluster = self.task.cluster.to_dict()
            fits = sum(len(a) + 3 for addresses in cluster.values() for a in addresses) < MAX_PAYLOAD - 1024
            connection.send({"type": "cluster", "cluster": cluster if fits else {}, "complete": fits})
        elif kind == "waiting":
            self._on_progress({key: value for key, value in message.items() if key != "type"})
        elif kind == "check":
            self._probes.begin(message)
        elif kind == "close":
            self.connections.stop_listening()
            connection.send({"type": "closed"})
        elif kind == "go":
            return {
                "chief": dict(message["chief"]),
                "seed": dict(message.get("seed") or {}),
                "peers": [str(peer) for peer in message.get("peers") or ()],
                "direct": bool(message.get("direct")),
                "linked": bool(message.get("linked")),
            }
        elif kind == "verdict":
            raise _verdict(message)
        return None

    def _handle_self(self, connection: Connection, message: Message | None) -> None:
        """Check that the chief's address leads to this process; report to another chief that answers."""
        self._self_call = None
        self._next_try = time.monotonic() + 1.0
        if message is None or self.chief is None:
            return
        self.connections.end(connection, "closed", tell=False)
        self._self_checked = True
        if message["id"] != self.chief.id:
            chief, self.chief = self.chief, None
            if self._connection is not None:
                self.connections.end(self._connection, "closed", tell=False)
            self._connection = None
            self._next_try = 0.0
            chief.abandon()

    def _report_probes(self, round: int, problems: list[dict[str, str]]) -> None:
        if self._connection is not None:
            self._connection.send({"type": "reached", "round": round, "problems": problems})


def _verdict(message: Message) -> RendezvousError:
    fields = dict(message["error"])
    fields.pop("kind", None)
    return RendezvousError(fields.pop("message"), **fields)

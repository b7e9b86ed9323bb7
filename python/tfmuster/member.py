"""One task's side of the rendezvous: reach the chief, be reached by the others, try to reach them."""

from __future__ import annotations

import socket
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from .chief import Chief
from .cluster import Task
from .control import this_process
from .errors import RendezvousError
from .hub import PENDING_SECONDS, SILENT_SECONDS, Hub, Line
from .ports import Resolver
from .verdict import rendezvous_error, too_late
from .wire import MAX_PAYLOAD, Message

_RETRY_SECONDS: Final = 0.3
_NOTICE_SECONDS: Final = 10.0
#: What the hub's words for the end of a line mean when it was the chief that was called.
_WHY = {
    "not-tfmuster": "what answers there is not tfmuster",
    "not-json": "what answers there is not tfmuster",
    "too-long": "what answers there is not tfmuster",
    "other-protocol": "another version of tfmuster answers there",
    "wrong-token": "a process with another TFMUSTER_TOKEN answers there (a task of an earlier job?)",
    "no-token": "a process without a token answers there; this task has one (TFMUSTER_TOKEN)",
    "needs-token": "a process with a token answers there; this task has none (TFMUSTER_TOKEN)",
    "hung up": "something there takes the connection and hangs up",
}


@dataclass
class _Probe:
    """A call to another task, to see whether it can be reached."""

    name: str
    address: str
    since: float
    line: Line | None = None
    problem: str | None = None
    reached: bool = False


class Member:
    """A task during the rendezvous.

    Parameters
    ----------
    task : Task
    deadline, limit : float
        When everyone must have arrived (monotonic clock), and the time that was given for it in seconds.
    token : str or None
    versions : dict of str
    listener : socket.socket or None
        Listens on the task's port, so that the others can see whether they reach it. None for the chief,
        whose thread has it, for evaluators, and if the port is taken.
    port_trouble : dict or None
        Why this task can't listen on its port.
    chief : Chief or None
        The chief's thread, in the chief's process.
    on_progress : callable
    """

    def __init__(
        self,
        task: Task,
        *,
        deadline: float,
        limit: float,
        token: str | None,
        versions: dict[str, str],
        listener: socket.socket | None,
        port_trouble: dict[str, Any] | None,
        chief: Chief | None,
        on_progress: Callable[[Message], None],
    ) -> None:
        self.task = task
        self.chief = chief
        self.hub = Hub(token=token)
        self._to = task.cluster.chief_task()
        self._digest = task.cluster.digest
        self._addresses = {t.name: t.address for t in task.cluster.tasks()}
        self._versions = versions
        self._id = uuid.uuid4().hex
        self._deadline, self._limit = deadline, limit
        self._port_trouble = port_trouble
        self._on_progress = on_progress
        self._resolver = Resolver()
        self._line: Line | None = None
        self._why = "no answer yet"
        self._welcome = False
        self._self_call: Line | None = None
        self._self_checked = chief is None
        self._probes: list[_Probe] = []
        self._round = 0
        self._next_try = 0.0
        self._next_notice = time.monotonic() + 1.0
        self._greeting = {"type": "challenge", "task": task.name, "id": self._id, "job": self._digest}
        if listener is not None:
            self.hub.listen(listener, self._greeting)

    def run(self) -> dict[str, Any]:
        """Block until the chief says go; returns its host and pid. Raises RendezvousError."""
        while True:
            now = time.monotonic()
            self._check_time(now)
            self._reach_chief(now)
            self._advance_probes(now)
            for line, message in self.hub.poll(0.05 if self._probes else 0.2):
                try:
                    chief_process = self._handle(line, message)
                except (KeyError, TypeError, ValueError, AttributeError):
                    self.hub.end(line, "not-tfmuster")
                    continue
                if chief_process is not None:
                    return chief_process

    def line_to_chief(self) -> Line:
        """The connection that becomes the control line."""
        assert self._line is not None
        return self._line

    def close(self) -> None:
        """Close all connections."""
        self.hub.close()

    def _check_time(self, now: float) -> None:
        if self._welcome:
            # The chief has the last word; its silence means that its machine froze.
            if now > self._deadline + SILENT_SECONDS:
                raise too_late(self.task, self._limit, "it stopped answering")
            return
        if now > self._deadline:
            raise too_late(self.task, self._limit, self._why)
        if now > self._next_notice:
            self._next_notice = now + _NOTICE_SECONDS
            self._on_progress(
                {"text": f"waiting for {self._to.name}, the chief, at {self._to.address}: {self._why}"}
            )

    def _reach_chief(self, now: float) -> None:
        if now < self._next_try:
            return
        if self._line is None and self.chief is not None:
            self._line = self.hub.adopt(self.chief.local_line(), caller=True)
        call_chief = self._line is None
        if not call_chief and (self._self_checked or self._self_call is not None):
            return
        targets = self._resolver.addresses(self._to.address)
        self._next_try = now + _RETRY_SECONDS
        if isinstance(targets, str):
            self._cut_off(targets)
            self._resolver.forget(self._to.address)
        elif targets and call_chief:
            self._line = self.hub.call(targets, seconds=min(PENDING_SECONDS, max(0.5, self._deadline - now)))
        elif targets:
            self._self_call = self.hub.call(targets, seconds=PENDING_SECONDS)

    def _cut_off(self, why: str) -> None:
        """The chief can't be reached now. The chief hears of it if it calls."""
        self._welcome = False
        self._why = self._greeting["trouble"] = _WHY.get(why, why)
        if self.task.is_chief and self.chief is None and self._port_trouble:
            self._fail(ports=[{"task": self.task.name, **this_process(), **self._port_trouble}])

    def _fail(self, **fields: list[dict[str, Any]]) -> NoReturn:
        raise rendezvous_error(self.task.cluster, None, **fields)

    def _handle(self, line: Line, message: Message | None) -> dict[str, Any] | None:
        if line is self._line:
            return self._handle_chief(line, message)
        if line is self._self_call:
            self._handle_self(line, message)
        elif isinstance(line.owner, _Probe):
            self._handle_probe(line, line.owner, message)
        elif message is not None and message["type"] == "called":
            # The chief reaches this task, which does not reach the chief: its verdict comes this way.
            self.hub.keep(line)
            self._deadline = min(self._deadline, time.monotonic() + float(message["left"])) + 1.5
            line.send({"type": "trouble", "reason": self._why})
        elif message is not None and message["type"] == "verdict" and not self._welcome:
            raise _verdict(message)
        return None

    def _handle_chief(self, line: Line, message: Message | None) -> dict[str, Any] | None:
        if message is None:
            self._line = None
            self._probes.clear()
            self._next_try = time.monotonic() + _RETRY_SECONDS
            self._cut_off(line.why)
            return None
        kind = message["type"]
        if kind == "challenge":
            now = time.monotonic()
            line.send(
                {
                    "type": "hello",
                    "task": self.task.name,
                    "id": self._id,
                    **this_process(),
                    "digest": self._digest,
                    "versions": self._versions,
                    "port": self._port_trouble,
                    "left": self._deadline - now,
                    "limit": self._limit,
                }
            )
        elif kind == "welcome":
            self._welcome = True
            self.hub.keep(line)
        elif kind == "describe":
            self._describe(line)
        elif kind == "waiting":
            self._on_progress({key: value for key, value in message.items() if key != "type"})
        elif kind == "check":
            self._round = message["round"]
            since = time.monotonic()
            self._probes = [_Probe(name, self._addresses[name], since) for name in message["targets"]]
            if not self._probes:
                line.send({"type": "reached", "round": self._round, "problems": []})
        elif kind == "close":
            self.hub.stop_listening()
            line.send({"type": "closed"})
        elif kind == "go":
            return dict(message["chief"])
        elif kind == "verdict":
            raise _verdict(message)
        return None

    def _describe(self, line: Line) -> None:
        cluster = self.task.cluster.to_dict()
        fits = sum(len(a) + 3 for addresses in cluster.values() for a in addresses) < MAX_PAYLOAD - 1024
        line.send({"type": "cluster", "cluster": cluster if fits else {}, "complete": fits})

    def _handle_self(self, line: Line, message: Message | None) -> None:
        """The chief's address leads here, or to another process that is the chief too: let that one tell."""
        self._self_call = None
        self._next_try = time.monotonic() + 1.0
        if message is None or self.chief is None:
            return
        self.hub.end(line, "closed", tell=False)
        self._self_checked = True
        if message["id"] != self.chief.id:
            chief, self.chief = self.chief, None
            if self._line is not None:
                self.hub.end(self._line, "closed", tell=False)
            self._line = None
            self._next_try = 0.0
            chief.abandon()

    def _advance_probes(self, now: float) -> None:
        if not self._probes:
            return
        for probe in self._probes:
            if probe.line is not None or probe.problem or probe.reached:
                continue
            targets = self._resolver.addresses(probe.address)
            if isinstance(targets, str):
                probe.problem = targets
            elif targets:
                probe.line = self.hub.call(targets)
                probe.line.owner = probe
            elif now > probe.since + PENDING_SECONDS:
                probe.problem = "looking up its name takes longer than five seconds"
        if self._line is not None and all(probe.problem or probe.reached for probe in self._probes):
            problems = [{"to": p.name, "reason": p.problem} for p in self._probes if p.problem]
            self._line.send({"type": "reached", "round": self._round, "problems": problems[:20]})
            self._probes.clear()

    def _handle_probe(self, line: Line, probe: _Probe, message: Message | None) -> None:
        if message is None:
            probe.problem = probe.problem or _WHY.get(line.why, line.why)
            return
        if message["task"] == probe.name and message["job"] == self._digest:
            probe.reached = True
        else:
            probe.problem = f"{message['task']} of another cluster answers there"
            if message["job"] == self._digest:
                probe.problem = f"{message['task']} answers there"
        self.hub.end(line, "closed", tell=False)


def _verdict(message: Message) -> RendezvousError:
    fields = dict(message["error"])
    fields.pop("kind", None)
    return RendezvousError(fields.pop("message"), **fields)

"""Run the chief's side of the rendezvous and of the control channel in one thread with one selector.

The stages are: *gather* until every task is here, *check* that they reach each other, *close* every listener
so that TensorFlow can bind the ports, *control* until the job is over. See docs/concepts/rendezvous.md.
"""

from __future__ import annotations

import socket
import threading
import time
import uuid
from dataclasses import dataclass
from typing import Final

from ...cluster.spec import Task, training_tasks
from ...errors import RendezvousError
from ...net.channel import Message
from ...net.connections import PENDING_SECONDS, Connection, Connections
from ...system.limits import room_for_strangers
from ...system.terminal_text import bounded_text
from ..error import MAX_LISTED, gave_up
from ..failures import disappeared, earliest, this_process
from ..links import Links, check_targets, links_wanted
from .call_back import CallBack
from .exchanges import Answers
from .roster import LISTENING, Participant, Roster, cluster_differences, origins, pass_on
from .watch import KINDS, Watch

#: How long the other tasks may take to arrive after a fault that waiting can't fix, in seconds.
SETTLE_SECONDS: Final = 10.0
#: How long the other tasks may take to read the last messages before the sockets close, in seconds.
LINGER_SECONDS: Final = 2.0
_CALL_EVERY = 5.0
_TOKEN_REASONS = {
    "wrong-token": "another token",
    "no-token": "no token",
    "needs-token": "a token, but this job has none",
}


@dataclass(frozen=True)
class Terms:
    """What a task brings to the rendezvous; `deadline` (monotonic clock) and `limit` are in seconds."""

    #: The secret of the job.
    token: str | None
    #: Versions that every task must have.
    versions: dict[str, str]
    #: When all tasks must have arrived, after the time `limit`.
    deadline: float
    limit: float


class RendezvousServer(threading.Thread):
    """Gathers the tasks of a cluster on the chief's own port. The listener is closed before they continue."""

    def __init__(self, task: Task, listener: socket.socket, terms: Terms, links: Links) -> None:
        super().__init__(name="tfmuster-chief", daemon=True)
        self.task = task
        self.id = uuid.uuid4().hex
        self.connections = Connections(token=terms.token, pending_limit=room_for_strangers(len(task.cluster)))
        self._roster = Roster(task, terms.versions)
        greeting = {"type": "challenge", "task": task.name, "id": self.id, "job": self._roster.digest}
        self.connections.listen(listener, greeting)
        self._links, self._link = links, False
        self._stage = "gather"
        self._clients: dict[str, Connection] = {}
        self._call_back = CallBack(self.connections, self._roster)
        self._answers: set[str] = set()
        self._round = 0
        now = time.monotonic()
        self._deadline, self._limit = terms.deadline, terms.limit
        self._settle: float | None = None
        self._stage_ends = 0.0
        self._next_call = now + 1.0
        self._next_progress = now + 1.0
        self._progress_text = ""
        self._failure: Message | None = None
        #: Cleared while a task has not confirmed a failure that was sent to it. This process must not end
        #: before: data that was sent but not read can be lost with the connection.
        self.told = threading.Event()
        self.told.set()
        self._watch = Watch(task)
        # Without a chief, all tasks that train are workers.
        awaited = training_tasks(task.cluster) if task.type == "worker" else [task]
        self._awaited = {other.name for other in awaited}
        self._done: set[str] = set()
        self._failed: set[str] = set()

    def local_connection(self) -> socket.socket:
        """Connect the chief to itself. Its address in the cluster may not work from inside (NAT)."""
        ours, theirs = socket.socketpair()

        def adopt() -> None:
            self.connections.keep(self.connections.adopt(theirs, caller=False))

        self.connections.post(adopt)
        return ours

    def abandon(self, why: str | None = None) -> None:
        """End the rendezvous from another thread. With `why`, tell all tasks that are present."""

        def end() -> None:
            if why and self._stage in ("gather", "check", "close"):
                self._verdict(gave_up(self.task, why))
            else:
                self._stage = "over"
                self._stage_ends = 0.0

        self.connections.post(end)
        self.join(LINGER_SECONDS + 1)

    def run(self) -> None:
        """Serve until the job is over."""
        try:
            while not (self._stage == "over" and (not self._clients or time.monotonic() > self._stage_ends)):
                for connection, message in self.connections.poll(self._tick()):
                    try:
                        self._handle_message(connection, message)
                    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
                        self.connections.end(connection, "sent an invalid message")
        finally:
            self.connections.close()

    def _tick(self) -> float:
        """Do what is due. Return the seconds until the next check of the clock."""
        now = time.monotonic()
        if self._stage == "gather":
            self._gather(now)
            return min(1.0, self._deadline - now) if self._settle is None else 0.1
        if self._stage in ("check", "close") and now > self._stage_ends:
            for id in self._clients.keys() - self._answers:
                self._roster.remove(id)
            self._verdict(self._roster.error(None))
        if self._stage == "control":
            self._look_for_stalls(now)
            return self._watch.tick()
        return 0.5

    def _gather(self, now: float) -> None:
        roster = self._roster
        if roster.complete() and not roster.fault():
            self._next_stage("check", PENDING_SECONDS + 3)
            self._round += 1
            roster.unreachable.clear()
            targets = check_targets(self.task)
            self._link = links_wanted(self.task, roster.here.values())
            check = {"type": "check", "round": self._round, "link": self._link}
            for id, connection in self._clients.items():
                connection.send({**check, "targets": targets[roster.here[id].name]})
            return
        if roster.fault() and self._settle is None:
            self._settle = now + SETTLE_SECONDS
        if self._settle and (
            now > self._settle or (roster.complete() and roster.fault() and roster.described())
        ):
            self._verdict(roster.error(None))
        elif now > self._deadline:
            self._verdict(roster.error(self._limit))
        else:
            self._send_progress(now)
            if now > self._next_call:
                self._next_call = now + _CALL_EVERY
                self._call_back.call_missing()

    def _send_progress(self, now: float) -> None:
        # Send changes at most once a second, and repeat an unchanged text every ten seconds.
        if now < self._next_progress:
            return
        text = self._roster.waiting_text()
        if text == self._progress_text and now < self._next_progress + 9:
            return
        self._next_progress, self._progress_text = now + 1, text
        for connection in self._clients.values():
            connection.send({"type": "waiting", **self._roster.progress(), "text": text})

    def _handle_message(self, connection: Connection, message: Message | None) -> None:
        if isinstance(connection.owner, str):
            if trouble := self._call_back.handle(connection, connection.owner, message, self._deadline):
                self._shorten(trouble)
        elif message is None:
            self._handle_end(connection)
        elif isinstance(connection.owner, Participant):
            self._handle_client(connection, connection.owner, message)
        elif message["type"] == "hello":
            self._handle_hello(connection, Participant.from_hello(message), message)
        elif message["type"] == "link":
            self._links.accept(self.connections, connection, message)

    def _handle_hello(self, connection: Connection, participant: Participant, hello: Message) -> None:
        if self._stage == "over" and self._failure:
            connection.send(self._failure)
            return
        if self._stage != "gather" or len(self._clients) > 2 * len(self._roster.addresses) + 64:
            self.connections.end(connection, "not now")
            return
        previous = self._clients.get(participant.id)
        if previous is not None:
            previous.owner = None
            self.connections.end(previous, "called again", tell=False)
        connection.owner = participant
        self.connections.keep(connection)
        self._clients[participant.id] = connection
        self._roster.arrive(participant)
        connection.send({"type": "welcome"})
        self._shorten(hello)
        if participant.digest != self._roster.digest:
            connection.send({"type": "describe"})

    def _shorten(self, message: Message) -> None:
        """Apply the shortest time limit of all tasks to all, but leave at least two seconds."""
        ends = time.monotonic() + max(2.0, float(message["left"]))
        if ends < self._deadline - 1:
            self._deadline, self._limit = ends, float(message["limit"])

    def _handle_end(self, connection: Connection) -> None:
        if connection.why in _TOKEN_REASONS and len(self._roster.strangers) < MAX_LISTED:
            self._roster.strangers[bounded_text(connection.host, 64)] = _TOKEN_REASONS[connection.why]
        participant = connection.owner
        if not isinstance(participant, Participant) or self._clients.get(participant.id) is not connection:
            return
        del self._clients[participant.id]
        self._answers.discard(participant.id)
        if self._stage == "control" and len(self._answers) >= len(self._clients):
            self.told.set()
        if self._stage in ("gather", "check"):
            self._roster.remove(participant.id)
            self._stage = "gather"
        elif self._stage == "close":
            self._roster.remove(participant.id)
            self._verdict(self._roster.error(None))
        elif self._stage == "control" and participant.name not in self._done | self._failed:
            self._fail(participant, disappeared(connection.why))
        self._check_over()

    def _handle_client(self, connection: Connection, participant: Participant, message: Message) -> None:
        kind = message["type"]
        if kind == "cluster":
            differences = cluster_differences(self.task.cluster, message["cluster"])
            self._roster.differences[participant.id] = differences
        elif kind == "reached" and self._stage == "check" and message["round"] == self._round:
            self._roster.note_unreachable(participant, message["problems"])
            if self._everyone_answered(participant.id):
                self._after_check()
        elif kind == "closed" and self._stage == "close":
            if self._everyone_answered(participant.id):
                self._next_stage("control", 0)
                agreed = {"seed": self._roster.agreed_seed(), **origins(self._participants())}
                self._send_all({"type": "go", "chief": this_process(), "linked": self._link, **agreed})
        elif kind == "done":
            self._done.add(participant.name)
            connection.send({"type": "noted"})
            self._answer(self._watch.done(participant, message, time.monotonic()))
            self._check_over()
        elif kind == "knock" and self._stage == "control":
            pass_on(message, self._participants(), self._roster.addresses, self.task.name)
        elif message == LISTENING and participant.name == self.task.name:
            self._send_all(LISTENING)
        elif kind in KINDS and self._stage == "control":
            self._answer(self._watch.handle(participant, message, time.monotonic()))
        elif kind == "failed":
            self._fail(participant, message)
        elif kind == "heard" and self._everyone_answered(participant.id):
            self.told.set()

    def _participants(self) -> list[tuple[Participant, Connection]]:
        return [(c.owner, c) for c in self._clients.values() if isinstance(c.owner, Participant)]

    def _after_check(self) -> None:
        if self._roster.unreachable:
            self._verdict(self._roster.error(None))
            return
        self._next_stage("close", PENDING_SECONDS + 3)
        self.connections.stop_listening()
        self._call_back.end()
        self._send_all({"type": "close"})

    def _everyone_answered(self, id: str) -> bool:
        self._answers.add(id)
        return len(self._answers) >= len(self._clients)

    def _next_stage(self, stage: str, seconds: float) -> None:
        self._stage = stage
        self._stage_ends = time.monotonic() + seconds
        self._answers.clear()

    def _send_all(self, message: Message) -> None:
        """Send a message to all tasks, and to this process last.

        After "go" this process enters TensorFlow, which may hold the interpreter lock until all have come.
        """
        for _, connection in sorted(
            self._participants(), key=lambda client: client[0].name == self.task.name
        ):
            connection.send(message)

    def _verdict(self, error: RendezvousError) -> None:
        """Send the error to all tasks, and to those that the chief reaches but that can't reach the chief."""
        self._failure = {"type": "verdict", "error": error.to_dict()}
        self._send_all(self._failure)
        self._call_back.tell(self._failure)
        self._next_stage("over", LINGER_SECONDS)

    def _fail(self, participant: Participant, report: Message) -> None:
        self._failed.add(participant.name)
        self._failure = earliest(self._failure, participant.process, report)
        # Send it even if it was not the first: a task that reports a failure waits for the answer.
        self.told.clear()
        self._answers.clear()
        self._send_all(self._failure)
        self._check_over()

    def _look_for_stalls(self, now: float) -> None:
        if self._watch.beat_due(now):
            self._send_all({"type": "beat"})
        answers, failure = self._watch.look(now)
        self._answer(answers)
        if failure is not None and self._failure is None:
            self._failure = failure
            self._send_all(failure)

    def _answer(self, answers: Answers) -> None:
        connections = {participant.name: connection for participant, connection in self._participants()}
        for task, message in answers:
            if task in connections:
                connections[task].send(message)

    def _check_over(self) -> None:
        """End the job when its chief has finished, or, if worker 0 is the chief, when all workers have."""
        if self._stage != "control":
            return
        if self._awaited <= self._done:
            self._next_stage("over", LINGER_SECONDS)
            self._send_all({"type": "over"})

"""Report how tasks end, over the connection to the chief that stays open after the rendezvous.

``done`` ends parameter servers and evaluators. ``failed`` sends the first failure to all other tasks, which
can then name the real cause instead of TensorFlow's ``UnavailableError``. A connection that breaks means that
a task has disappeared. ``agree`` is one task's part of an exchange (:mod:`.agreement`).
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import math
import os
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import ClassVar

from ...cluster.spec import Task
from ...errors import TfmusterError, WorkerError
from ...net.channel import Message
from ...net.connections import Connection, Connections
from ...system.activity import ACTIVITY
from ...system.process_end import exit_as, failure_of_exit, remember_exit_code
from ...tracking.live.stacks import answer_request
from ..failures import STALLED, Silence, disappeared, failure_text

#: How long a task that ends waits for the chief to confirm it, in seconds.
_TOLD_SECONDS = 2.0


class ControlChannel:
    """The control channel of one task, made by :func:`.meet.muster`.

    Any thread may call its methods, any number of times. Without a connection they do nothing.
    """

    _current: ClassVar[ControlChannel | None] = None

    def __init__(self, task: Task) -> None:
        self.task = task
        #: The earliest failure of the job by the chief's clock: ``task``, ``host``, ``pid``, ``kind``
        #: (``exception``, ``reported``, ``disappeared`` or ``stalled``), ``message``, ``traceback`` (may be
        #: empty), ``time`` (seconds since the epoch).
        self.first_failure: Message | None = None
        #: What the chief said about the seed of the job; see :mod:`.seeding`.
        self.seed: Message = {}
        #: IP addresses from which the tasks came to the chief, and whether these are the tasks' own: then no
        #: gateway translates them.
        self.peers: list[str] = []
        self.direct = False
        #: What to do with the chief's messages of other modules, by type.
        self.on: dict[str, Callable[[Message], None]] = {"listening": lambda _: self.chief_listens.set()}
        self.chief_listens = threading.Event()
        self._pid = os.getpid()
        self._connections: Connections | None = None
        self._connection: Connection | None = None
        self._chief: threading.Thread | None = None
        self._told: threading.Event | None = None
        self._chief_process: Message = {}
        self._callbacks: list[Callable[[Message], None]] = []
        self._lock = threading.Lock()
        self._reported_end = False
        self._silence: Silence | None = None
        # A thousand tasks must not keep the chief busy.
        self._report_every = max(1.0, len(task.cluster) / 100)
        self._next_report = 0.0
        self._numbers = itertools.count(1)
        #: For each question that waits for a reply.
        self._replies: dict[int, queue.SimpleQueue[Message]] = {}
        self._heard = threading.Event()
        self._over = threading.Event()
        self._ended = threading.Event()

    @classmethod
    def current(cls) -> ControlChannel | None:
        """Return the control channel of this process; None before the rendezvous and in forked children."""
        control = ControlChannel._current
        return control if control is not None and control._pid == os.getpid() else None

    @classmethod
    def make_current(cls, control: ControlChannel) -> None:
        """Set what `current` returns."""
        ControlChannel._current = control

    @property
    def active(self) -> bool:
        """True while the connection to the chief is open."""
        return self._connection is not None and not self._ended.is_set()

    @property
    def joined(self) -> bool:
        """True once there has been a connection to the chief. It may have ended; `wait_done` says how."""
        return self._connection is not None

    def start(
        self,
        connections: Connections,
        connection: Connection,
        chief: threading.Thread | None,
        told: threading.Event | None,
        chief_process: Message,
    ) -> None:
        """Take over the connection that the rendezvous made."""
        self._connections, self._connection = connections, connection
        self._chief, self._told = chief, told
        self._chief_process = {"task": self.task.cluster.chief_task().name, **chief_process}
        if chief is None:
            host, pid = str(chief_process.get("host")), int(chief_process.get("pid", 0))
            self._silence = Silence(host, pid, time.monotonic())
        threading.Thread(target=self._serve, name="tfmuster-control", daemon=True).start()
        atexit.register(self._at_exit)
        remember_exit_code()

    def done(self, *, linger: float = 60.0) -> None:
        """Report that this task has finished. From now on, its end is not a failure.

        The job is over when its chief has finished, or with worker 0 as chief, when all workers have. The
        chief, which serves all connections, waits `linger` seconds for them.
        """
        if self._report_end({"type": "done", "doing": ACTIVITY.report()}) and self._chief is not None:
            self._over.wait(linger)
            if self.first_failure is None:
                self._chief.join(_TOLD_SECONDS + 1)

    def failed(self, reason: str | Message, *, age: float = 0.0) -> None:
        """Report that this task has failed `age` seconds ago; the earliest failure of the job is its cause.

        The reason is a message, or a dict with ``message`` and optionally ``kind`` and ``traceback``.
        """
        fields = reason if isinstance(reason, dict) else {"message": reason}
        self._report_end(
            {
                "type": "failed",
                "kind": str(fields.get("kind", "reported")),
                "message": str(fields.get("message", "failed"))[:4000],
                "traceback": str(fields.get("traceback") or "")[-16_000:],
                "age": age,
            }
        )

    def report_exception(self, error: BaseException) -> None:
        """Call `failed` with the type, text and traceback of an exception."""
        only = "".join(traceback.format_exception_only(error)).strip()
        text = error.message if isinstance(error, TfmusterError) else only
        trace = "".join(traceback.format_exception(error))
        self.failed({"kind": "exception", "message": text, "traceback": trace})

    def on_failure(self, callback: Callable[[Message], None]) -> None:
        """Call `callback(first_failure)` once: when another task fails, or now if one has failed.

        The callback registered last is called first, usually in the control channel's thread: don't call R.
        """
        with self._lock:
            failure = self.first_failure
            if failure is None or (failure["task"] == self.task.name and failure["kind"] != STALLED):
                self._callbacks.append(callback)
                return
        callback(failure)

    def ask(self, message: Message, timeout: float | None) -> Message | None:
        """Send a numbered message to the chief, and return the reply with its number.

        Return None without a connection, if the job is over, or after `timeout` seconds. Raises WorkerError
        if a task has failed.
        """
        if not self.active:
            return None
        number, replies = next(self._numbers), queue.SimpleQueue[Message]()
        self._replies[number] = replies
        self.send({**message, "number": number, "doing": ACTIVITY.report()})
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        try:
            while True:
                # Wait in short steps: on some platforms Ctrl-C can't interrupt a wait without limit.
                left = 0.0 if self._over.is_set() else min(0.5, deadline - time.monotonic())
                with contextlib.suppress(queue.Empty):
                    return replies.get(timeout=max(0.0, left))
                if left <= 0.0:
                    break
        finally:
            del self._replies[number]
        self.raise_failure()
        return None

    def send(self, message: Message) -> None:
        """Send a message to the chief, if there is a connection."""
        connections, connection = self._connections, self._connection
        if connections is not None and connection is not None and self.active:
            connections.post(lambda: connection.send(message))

    def wait_done(self, timeout: float | None = None) -> bool:
        """Wait until the job is over; False after `timeout` seconds. Servers and evaluators call it last.

        Raises WorkerError if a task failed, with the fields of `first_failure`, and `message` as `reason`.
        """
        if self._connection is None:
            return True
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        # Wait in short steps, as in `ask`.
        while not self._over.wait(min(0.5, max(0.0, deadline - time.monotonic()))):
            if time.monotonic() >= deadline:
                return False
        self.raise_failure()
        return True

    def raise_failure(self) -> None:
        """Raise the first failure of the job as a WorkerError, if there is one."""
        failure = self.first_failure
        if failure is not None:
            fields = {key: value for key, value in failure.items() if key != "message"}
            raise WorkerError(failure_text(failure), reason=failure["message"], **fields)

    def close(self) -> None:
        """Close the connection. Other tasks treat this as a failure unless `done` was called before."""
        if self._connections is not None and not self._ended.is_set():
            self._connections.post(self._let_go)
            self._ended.wait(1)

    def _report_end(self, message: Message) -> bool:
        """Send the last message of this task, only once, and wait until the chief has confirmed it."""
        with self._lock:
            if self._reported_end or not self.active or self._pid != os.getpid():
                return False
            self._reported_end = True
        atexit.unregister(self._at_exit)
        self.send(message)
        self._heard.wait(_TOLD_SECONDS)
        if self._told is not None:
            self._told.wait(_TOLD_SECONDS)
        return True

    def _serve(self) -> None:
        assert self._connections is not None and self._connection is not None
        try:
            while not self._ended.is_set():
                self._report()
                for connection, message in self._connections.poll(self._report_every):
                    if connection is not self._connection:
                        continue
                    if message is None:
                        self._lost(connection.why)
                    else:
                        self._handle(message)
        finally:
            # If this thread fails, the chief must learn that nobody answers for this task any more.
            self._let_go()
            self._connections.close()

    def _report(self) -> None:
        """Tell the chief what this task does, if others may wait for it, and whoever has asked its stacks."""
        now = time.monotonic()
        if now < self._next_report or self._reported_end or self._connection is None:
            return
        self._next_report = now + self._report_every
        answer_request()
        if not ACTIVITY.watched:
            return
        if self._silence and not self._over.is_set() and (ACTIVITY.waits or self._replies):
            failure = self._silence.as_stall(self.task.name, self._chief_process, now)
            if failure is not None:
                self._note(failure)
        self._connection.send({"type": "doing", "doing": ACTIVITY.report()})

    def _handle(self, message: Message) -> None:
        if self._silence is not None:
            self._silence.heard(time.monotonic())
        kind = str(message.get("type"))
        if kind == "noted":
            self._heard.set()
        elif kind == "failure":
            if self._connection is not None:
                self._connection.send({"type": "heard"})
            self._note({key: value for key, value in message.items() if key != "type"})
            self._heard.set()
        elif kind == "agreed":
            if (replies := self._replies.get(int(message["number"]))) is not None:
                replies.put(message)
        elif kind == "over":
            self._let_go()
        elif (handle := self.on.get(kind)) is not None:
            handle(message)

    def _lost(self, why: str) -> None:
        if not self._over.is_set():
            end = disappeared(why)
            moment = time.time() - end.pop("age")
            self._note({**self._chief_process, **end, "traceback": "", "time": moment})
        self._let_go()

    def _note(self, failure: Message) -> None:
        with self._lock:
            self.first_failure = failure
            callbacks: list[Callable[[Message], None]] = []
            if failure["task"] != self.task.name or failure["kind"] == STALLED:
                callbacks, self._callbacks = self._callbacks, []
        for callback in reversed(callbacks):
            try:
                callback(failure)
            except Exception:
                traceback.print_exc()  # the channel must outlive a callback that fails
        # Last: the main thread may wait for this, and then end the process.
        self._over.set()

    def _let_go(self) -> None:
        if self._connections is not None and self._connection is not None:
            self._connections.end(self._connection, "closed", tell=False)
        self._heard.set()
        self._over.set()
        self._ended.set()

    def _at_exit(self) -> None:
        # Python has already handled an uncaught exception. At an interactive prompt, the last one may be old.
        error = getattr(sys, "last_value", None)
        if hasattr(sys, "ps1"):
            self.done()
        elif error is not None:
            self.report_exception(error)
        elif (failure := failure_of_exit()) is not None:
            self.failed({"kind": "exception", "message": failure})
        else:
            try:
                ACTIVITY.before_end()
            except TfmusterError as refusal:
                # Python has no way to fail here; its hook notes the error as that of any program.
                with contextlib.suppress(SystemExit):
                    sys.excepthook(type(refusal), refusal, refusal.__traceback__)
                self.report_exception(refusal)
                exit_as(refusal.exit_code)
            self.done()

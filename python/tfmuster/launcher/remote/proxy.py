"""Stand in for a worker on another host: a local process with the worker's output, exit code and signal.

The launcher starts ``python -m tfmuster.launcher.remote.proxy`` for each remote worker, so that it
can treat all workers alike. The proxy runs ssh, or gets the socket of an agent that has connected
(:mod:`.engine_agents`). It communicates with the agent at the other end, and ends with the connection. It
reads these lines of JSON from its input:

1. ``ssh`` (an argument list), or ``socket`` (its number) and ``key``; then ``host``, ``seconds``, ``ask`` and
   ``script`` (its path and its name there, if it is sent). The proxy answers with one line of JSON: the
   agent's ``hello`` with ``ahead`` (how far the host's clock is ahead, in seconds), or ``fault`` (see
   :mod:`.host_checks`).
2. Perhaps others, before the worker's job is known: ``continue`` has the run directory, and the ``files`` in
   it from which the worker continues. The proxy sends them, unless the host shares the run directory, and
   answers with an empty object. ``warm`` has a job for which a process is to wait. From then on the proxy
   answers ``check`` with an empty object, or with a ``fault`` if the agent is not heard any more.
3. ``job`` (with the token, which is never on a command line), ``files`` to send (the path and the remote name
   of each) and ``note_path``. From then on, the proxy's output is the worker's.

When the proxy is asked to end, or its input ends, the worker ends, too.
"""

from __future__ import annotations

import contextlib
import os
import queue
import random
import signal
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from ...net.channel import FILE, JSON, OUTPUT, ChannelError, message, read_message
from ...system.process_end import exit_as
from ...system.terminal_text import safe_text
from ...tracking.failure.error_file import note_of, write_note
from ...tracking.failure.failure import not_writable
from ...tracking.failure.texts import LOST
from ...tracking.lifecycle.preemption import order_in
from ...tracking.record.layout import CALL, may_arrive, task_of, write_json
from ..supervise.time_limits import DOUBTFUL, PROXY, SILENT
from ..supervise.worker_process import remote_path
from .agent_connection import AgentConnection, HomeLink, SshLink, channel_problem, read_hello
from .files import RUN, WORK, Arrivals, Arriving, DamagedError, Message

#: How long a proxy that waits for its job looks for data of the agent before it looks for orders, in seconds.
_WAITING_LOOK_SECONDS = 0.05


class WorkerProxy:
    """Reproduces the output, files and end of a remote worker."""

    def __init__(self, connection: AgentConnection, host: str, ahead: float, order: Message) -> None:
        self._connection = connection
        self._host = host
        self._ahead = ahead
        self._note_path = Path(order["note_path"])
        self._run_dir = Path(order["job"]["run_dir"])
        part = self._run_dir / f".{self._note_path.name}.part"
        task = task_of(self._note_path.name.partition(".")[0])
        arrivals = Arrivals(self._run_dir, task, self._say)
        self._files = Arriving(part, partial(may_arrive, task), arrivals.place)
        #: What is known about the worker's process and its files there.
        self._there: Message = {}
        #: The names of files that were not kept.
        self._refused: set[str] = set()
        self._line_is_whole = True
        self._code: int | None = None
        self._ending = False
        self._ordered = False

    def run(self, orders: Orders) -> int:
        """Run to the worker's end. Return its exit code, negative for a signal; 1 for a lost connection."""
        signal.signal(signal.SIGTERM, self._ask_to_end)
        threading.Thread(target=self._watch_input, args=[orders], daemon=True).start()
        try:
            while self._connection.open and self._connection.silence < SILENT.seconds:
                for kind, payload in self._connection.receive():
                    self._handle(kind, payload)
                if not self._ordered and (number := order_in(self._run_dir)):
                    # Once: the worker is to save and leave.
                    self._ordered = True
                    self._connection.send(message("leave", signal=number))
                if self._ending and self._connection.silence > DOUBTFUL.seconds:
                    break
        except ChannelError as error:
            return self._lost(channel_problem(error))
        except OSError as error:
            # The worker's files can't be written here.
            reason = not_writable(self._run_dir, error)
            write_note(self._note_path, note_of(reason))
            return reason.exit_code
        finally:
            self._files.drop()
        if self._code is not None:
            return self._code
        if self._connection.open:
            return self._lost(f"nothing heard for {self._connection.silence:.0f} s")
        if self._ending:
            return 1
        messages = self._connection.output.strip().splitlines()
        return self._lost(messages[-1] if messages else "the connection was closed at the other end")

    def _handle(self, kind: bytes, payload: bytes) -> None:
        if kind == OUTPUT:
            self._show(payload)
        elif kind == FILE:
            self._files.add(payload)
        elif kind == JSON:
            self._obey(read_message(payload))

    def _obey(self, report: Message) -> None:
        """Do what a message of the agent says."""
        kind = report["type"]
        if kind == "exit":
            self._code = int(report["code"])
            if self._there.get("own"):
                # They have come back.
                self._record(folder=None)
        elif kind == "say":
            self._say(str(report["text"]))
        elif kind == "back":
            self._connection.send(message("came", refused=sorted(self._refused)))
        elif kind == "folder":
            self._record(folder=str(report["path"]), own=bool(report["own"]))
        elif kind == "note":
            moment = float(report["note"]["time"]) - self._ahead
            write_note(self._note_path, {**report["note"], "time": moment})
        elif kind == "process":
            since = report["stopped_at"] and float(report["stopped_at"]) - self._ahead
            self._record(pid=int(report["pid"]), stopped=report["stopped"], stopped_at=since)
        elif kind == "file":
            self._keep(report)
        elif kind == "removed":
            self._files.remove(report)

    def _record(self, **known: object) -> None:
        self._there |= known
        write_json(remote_path(self._note_path), self._there)

    def _keep(self, report: Message) -> None:
        name = str(report["path"])
        try:
            if self._files.keep(report):
                self._refused.discard(name)
                return
            self._say_refused(name)
        except DamagedError:
            # The host tries a small file again every second.
            if name not in self._refused:
                self._say(f"{self._host} sent {name}, which is damaged or incomplete; it was not kept")
        self._refused.add(name)

    def _say(self, text: str) -> None:
        """Show a line of tfmuster's own, after the end of what the worker's last words may have left open."""
        end = b"" if self._line_is_whole else b"\n"
        self._show(end + f"tfmuster: {safe_text(text)}\n".encode())

    def _show(self, data: bytes) -> None:
        self._line_is_whole = data.endswith(b"\n")
        try:
            os.write(1, data)
        except OSError:
            # The launcher has gone.
            self._ask_to_end()

    def _say_refused(self, name: str) -> None:
        """Say once which file of the host was not kept, unless honest workers send such files, too."""
        top, *before = (path.partition("/")[0] for path in (name, *self._refused))
        if top not in (CALL, *before) and not any(part.startswith(".") for part in name.split("/")):
            self._say(f"{self._host} sent {name}, a name that tfmuster uses itself; the file was not kept")

    def _lost(self, why: str) -> int:
        """Record that the connection is lost, with the last time at which it worked."""
        self._say(f"{self._host} {LOST}{why}")
        moment = time.time() - self._connection.silence
        write_note(self._note_path, {"time": moment, "error": f"{LOST}{why}", "lost": True})
        return 1

    def _ask_to_end(self, *_: object) -> None:
        self._ending = True
        self._connection.end()

    def _watch_input(self, orders: Orders) -> None:
        # There are no more. When the input ends, the launcher has ended.
        if not orders.next():
            self._ask_to_end()


def connect(order: Message) -> tuple[AgentConnection, Message]:
    """Connect, and return the agent's answer. Retry once if the ssh server had too many connections."""
    end = time.monotonic() + order["seconds"]
    while True:
        if "ssh" in order:
            connection = AgentConnection(SshLink(order["ssh"]))
        else:
            connection = AgentConnection(HomeLink(order["socket"], bytes.fromhex(order["key"])))
        if order["script"] is not None:
            path, name = order["script"]
            connection.send_file(path, f"{WORK}/{name}")
        connection.send(message("ask", **order["ask"]))
        hello = read_hello(connection, order["host"], end - time.monotonic())
        pause = random.uniform(0.5, 2)
        if hello.get("fault", {}).get("code") != "busy" or time.monotonic() + pause > end:
            return connection, hello
        time.sleep(pause)


class Orders(threading.Thread):
    """Reads the launcher's lines; an empty one says that there are no more."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def run(self) -> None:
        """Read to the end. `sys.stdin` has a lock, which Python could not take when it ends."""
        begun = b""
        while data := os.read(0, 65_536):
            *lines, begun = (begun + data).split(b"\n")
            for line in lines:
                self._lines.put(line + b"\n")
        self._lines.put(b"")

    def next(self, seconds: float | None = None) -> bytes | None:
        """Return the next line; None if there is none within `seconds`."""
        try:
            return self._lines.get(timeout=seconds) if seconds != 0 else self._lines.get_nowait()
        except queue.Empty:
            return None


def read_job(connection: AgentConnection, orders: Orders) -> Message | None:
    """Carry out the launcher's orders up to the worker's job, and return that; None if there is none."""
    waits = False
    while True:
        line = orders.next(0 if waits else None)
        if line is None:
            waits = _still_heard(connection)
            continue
        if not line:
            return None
        order: Message = orjson.loads(line)
        if "job" in order:
            return order
        if "warm" in order:
            connection.send(message("warm", **order["warm"]))
            waits = True
            continue
        answer: Message = {}
        if "check" in order:
            answer = {} if _still_heard(connection) else {"fault": "lost"}
        else:
            # If the connection is lost, the worker's job ends with that error.
            with contextlib.suppress(ChannelError):
                send_run(connection, **order["continue"])
        _answer(answer)


def _still_heard(connection: AgentConnection) -> bool:
    """Read what the agent sends while it waits. Return whether it is not silent for too long."""
    with contextlib.suppress(ChannelError):
        for _ in connection.receive(_WAITING_LOOK_SECONDS):
            pass
        return connection.open and connection.silence < DOUBTFUL.seconds
    return False


def _answer(answer: Message) -> None:
    sys.stdout.buffer.write(orjson.dumps(answer) + b"\n")
    sys.stdout.buffer.flush()


def send_run(connection: AgentConnection, files: list[tuple[str, str]], **where: Any) -> None:
    """Send files of the run directory, unless the agent shares it, and wait until the agent has them."""
    connection.send(message("continue", **where))
    while connection.open and connection.silence < SILENT.seconds:
        for _, payload in connection.receive():
            answer = read_message(payload)
            if answer["type"] == "ready" or answer.get("shared"):
                return
            if answer["type"] == "shares":
                for path, name in files:
                    connection.send_file(path, f"{RUN}/{name}")
                connection.send(message("continued"))


def main() -> None:
    """Read the first line, answer it, read the others, and run as the worker."""
    orders = Orders()
    orders.start()
    order = orjson.loads(orders.next() or b"")
    connection, hello = connect(order)
    _answer(hello)
    job = None if "fault" in hello else read_job(connection, orders)
    if job is None:
        connection.end()
        end = time.monotonic() + PROXY.seconds
        with contextlib.suppress(ChannelError):
            while connection.open and connection.silence < DOUBTFUL.seconds and time.monotonic() < end:
                list(connection.receive())
        connection.kill()
        return
    for path, name in job["files"]:
        connection.send_file(path, f"{WORK}/{name}")
    connection.send(message("job", **job["job"]))
    code = WorkerProxy(connection, order["host"], hello["ahead"], job).run(orders)
    connection.kill()
    exit_as(code)


if __name__ == "__main__":
    main()

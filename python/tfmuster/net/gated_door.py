"""A door for kernels that let only administrators filter the packets of TCP sockets.

The kernel makes every connection, and TensorFlow gets it when it has been judged (``accept_gate.c``). Who
is let in, and when the door closes, is as in :mod:`.door`.

While the door is closed and nobody is announced, the queue of each listener is one connection long, and full:
so the kernel drops the requests of strangers, and they cost this process nothing. It drops a peer's, too, who
repeats it after a second and finds the door open for him then.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, NamedTuple

from .door import Door
from .socket_table import ESTABLISHED, End, TableLine, borrowed, end_of, table

#: How long a connection is held back that a peer may still announce, in seconds.
HELD_SECONDS: Final = 10.0
#: When more are held back, the oldest is closed.
_MOST_HELD = 64
#: How many are taken before they are judged.
_MOST_AT_ONCE = 256
#: How often to judge, in seconds: connections that are held back, and new ones.
_AGAIN, _NEW = 0.02, 0.2

SOURCE: Final = Path(__file__).with_name("accept_gate.c")
#: How long a connection of this process to itself may take, in seconds.
_BELL_SECONDS = 0.5


class AcceptGate:
    """Holds back what TensorFlow accepts until judged (Linux). One thread at a time may call each method."""

    def __init__(self, path: Path) -> None:
        """Load the compiled library. Raises OSError, for example if its file system forbids execution."""
        self._library = ctypes.CDLL(str(path))
        self._bells: set[int] = set()

    def install(self, part: str) -> bool:
        """Replace ``accept`` in the loaded libraries whose path contains `part`. Tell if it was found."""
        return bool(self._library.tfmuster_gate_install(part.encode()))

    def guard(self, port: int) -> None:
        """Hold back the connections to one more port. Raises OSError if there are too many."""
        if self._library.tfmuster_gate_guard(port):
            raise OSError(f"no room to guard port {port}")

    def next(self, seconds: float) -> socket.socket | None:
        """Return the next connection that is held back, or None after some seconds."""
        while (descriptor := self._library.tfmuster_gate_next(int(seconds * 1000))) >= 0:
            held = socket.socket(fileno=descriptor)
            with contextlib.suppress(OSError):
                caller = held.getpeername()[1]
                if caller not in self._bells:
                    return held
                self._bells.discard(caller)
            held.close()
        return None

    def admit(self, held: socket.socket) -> None:
        """Let a connection be accepted."""
        port = held.getsockname()[1]
        if self._library.tfmuster_gate_admit(held.fileno()):
            held.close()
            return
        held.detach()
        self.ring(port)

    def shut(self, shut: bool) -> None:
        """Leave connections that come with the kernel, or take them from it again."""
        self._library.tfmuster_gate_shut(int(shut))

    def ring(self, port: int) -> None:
        """Make one connection to a port: TensorFlow looks only when somebody comes."""
        for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
            with contextlib.suppress(OSError), socket.socket(family) as bell:
                bell.bind((host, 0))
                caller = bell.getsockname()[1]
                # Before it connects: the thread that judges must know it.
                self._bells.add(caller)
                bell.settimeout(_BELL_SECONDS)
                try:
                    bell.connect((host, port))
                    return
                except OSError:
                    self._bells.discard(caller)


class _Ends(NamedTuple):
    """The ends of a connection, and until when it is held back."""

    here: End
    there: End
    until: float


class GatedDoor(Door):
    """The door of a process whose gate is installed in the code that opens the ports."""

    def __init__(
        self,
        ports: Iterable[int],
        peers: Iterable[str],
        announce: Callable[[End, End], None],
        refused: Callable[[str, int | None], None],
        gate: AcceptGate,
    ) -> None:
        super().__init__(ports, peers, announce, refused)
        self._gate = gate
        self._held: dict[socket.socket, _Ends] = {}
        #: Listeners whose queue is full on purpose.
        self._full: set[int] = set()
        self._turn = threading.Lock()
        self._judge_thread = threading.Thread(target=self._judge_held, name="tfmuster-gate", daemon=True)

    def guard(self, port: int) -> None:
        """Guard one more port. Raises OSError if there are too many."""
        self._gate.guard(port)
        super().guard(port)

    def start(self) -> None:
        """Guard the ports from now on."""
        for port in self._ports:
            self._gate.guard(port)
        self.guarding.set()
        self._judge_thread.start()
        super().start()

    def join(self, timeout: float | None = None) -> None:
        """Wait for the end of both threads."""
        super().join(timeout)
        self._judge_thread.join(timeout)

    def _apply(self, expected: list[End], peers: set[str]) -> None:
        """Let the kernel make connections only while somebody may come. They are judged later."""
        with self._turn:
            self._shut(self.stage == "closed" and not expected and not _asks_again())

    def _shut(self, shut: bool) -> None:
        self._gate.shut(shut)
        self._full &= self._listeners.keys()
        for inode, descriptor in self._listeners.items():
            if (inode in self._full) == shut:
                continue
            with borrowed(descriptor, inode) as listener:
                if listener is not None:
                    listener.listen(0 if shut else socket.SOMAXCONN)
                    # It fills the queue, or has it emptied.
                    self._gate.ring(listener.getsockname()[1])
            self._full ^= {inode}

    def _judge(self, descriptor: int, inode: int, lines: list[TableLine]) -> None:
        """Nothing: what TensorFlow has accepted was judged before."""

    def _judge_held(self) -> None:
        while not self._stopped:
            try:
                self._take(_AGAIN if self._held else _NEW)
                # The table of sockets can be long. Strangers must not make this process read it.
                judged = [
                    (held, ends)
                    for held, ends in self._held.items()
                    if self.stage == "watched" or ends.there in self._expected
                ]
                lines = {(line.there, line.here): line for line in (table() if judged else ())}
                for held, ends in judged:
                    self._judge_one(held, ends, lines.get((ends.here, ends.there)))
                now = time.monotonic()
                for held in [held for held, ends in self._held.items() if ends.until < now]:
                    self._drop(held)
            except OSError:
                # File descriptors may have run out for a while.
                time.sleep(_AGAIN)

    def _take(self, seconds: float) -> None:
        """Wait for a connection, and take all that have come."""
        for _ in range(_MOST_AT_ONCE):
            held = self._gate.next(seconds)
            if held is None:
                return
            seconds = 0
            try:
                here, there = end_of(held.getsockname()), end_of(held.getpeername())
            except OSError:  # it has ended
                held.close()
                continue
            self._held[held] = _Ends(here, there, time.monotonic() + HELD_SECONDS)
            if self.stage == "closed" and not self._is_peer(there[0]):
                self._drop(held)
            elif len(self._held) > _MOST_HELD:
                self._drop(next(iter(self._held)))

    def _judge_one(self, held: socket.socket, ends: _Ends, client: TableLine | None) -> None:
        """Let a connection be accepted, close it, or hold it back longer."""
        if client is not None and (client.state != ESTABLISHED or client.uid != os.geteuid()):
            self._drop(held)
            self._refused(ends.there[0], client.uid)
        elif client is not None or self._is_welcome(ends.there):
            self._came = time.monotonic()
            with self._turn:
                self._shut(False)
                del self._held[held]
                self._gate.admit(held)
            with self._lock:
                self._changed |= self._expected.pop(ends.there, None) is not None
            self._wake.set()

    def _drop(self, held: socket.socket) -> None:
        del self._held[held]
        held.close()


def _asks_again() -> bool:
    """Return whether gRPC asks a listener again and again as long as a connection waits in its queue."""
    return os.environ.get("GRPC_POLL_STRATEGY", "").startswith("poll")

"""Serve many connections in one thread: accept, call, send and receive messages, all within limits.

An incoming connection has `PENDING_SECONDS` to introduce itself and may send one bounded frame until then.
When more than `pending_limit` are waiting, the oldest is dropped.
"""

from __future__ import annotations

import contextlib
import errno
import heapq
import itertools
import selectors
import socket
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator

from .addresses import plain_address
from .channel import Channel, ChannelError, Message
from .ports import SocketAddress, close_in_children, connect_problem, detect_silence

#: How long a connection may take to be made and to introduce itself, in seconds.
PENDING_SECONDS = 5.0
#: How long a silent connection keeps its place even if others wait for it, in seconds.
CHANCE_SECONDS = 0.3

_MAX_UNSENT = 4 * 1024 * 1024
_RECEIVE = 64 * 1024


class Connection:
    """One connection of `Connections`. After it has ended, `why` says what ended it."""

    def __init__(
        self, connections: Connections, *, caller: bool, targets: list[SocketAddress] | None = None
    ) -> None:
        self._connections = connections
        self._targets = deque(targets or ())
        self.channel = Channel(caller=caller, token=connections.token)
        self.socket: socket.socket | None = None
        self.connected = False
        self.unsent = bytearray()
        self.why = ""
        #: The address it was accepted from.
        self.host = ""
        #: Anything that the code that uses the connections wants to remember about the other side.
        self.owner: object = None

    def own_host(self) -> str:
        """Return the address of this process on this connection; empty within one process."""
        if self.socket is None or self.socket.family == socket.AF_UNIX:
            return ""
        return plain_address(str(self.socket.getsockname()[0]))

    def send(self, message: Message) -> None:
        """Queue a message and send what the kernel takes at once. An error ends the connection."""
        if self.socket is None:
            return
        try:
            self.unsent += self.channel.encode(message)
        except ChannelError as error:
            self._connections.end(self, error.reason)
            return
        if len(self.unsent) > _MAX_UNSENT:
            self._connections.end(self, "does not read")
        elif self.connected:
            self._connections.flush(self)


class Connections:
    """All connections of one thread. At most `pending_limit` wait without having introduced themselves."""

    def __init__(self, *, token: str | None, pending_limit: int) -> None:
        self.token = token
        self._selector = selectors.DefaultSelector()
        self._strangers: OrderedDict[Connection, float] = OrderedDict()
        self._calls: set[Connection] = set()
        self._pending_limit = pending_limit
        self._deadlines: list[tuple[float, int, Connection]] = []
        self._numbers = itertools.count()
        self._open_connections: set[Connection] = set()
        self._listener: socket.socket | None = None
        self._listening_since = 0.0
        self._greeting: Message = {}
        self._events: deque[tuple[Connection, Message | None]] = deque()
        self._posted: deque[Callable[[], None]] = deque()
        self._wake_read, self._wake_write = socket.socketpair()
        for end in (self._wake_read, self._wake_write):
            end.setblocking(False)
        self._selector.register(self._wake_read, selectors.EVENT_READ, None)
        close_in_children(self)

    def listen(self, listener: socket.socket, greeting: Message) -> None:
        """Accept connections of `listener`, and send `greeting`, the challenge, to each."""
        self._listener = listener
        self._greeting = greeting
        self._selector.register(listener, selectors.EVENT_READ, listener)

    def stop_listening(self) -> None:
        """Close the listener and every connection that has not introduced itself."""
        if self._listener is not None:
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(self._listener)
            self._listener.close()
            self._listener = None
        for connection in list(self._strangers):
            self.end(connection, "closed", tell=False)

    def call(self, targets: list[SocketAddress], *, seconds: float = PENDING_SECONDS) -> Connection:
        """Connect to the first of `targets` that accepts the connection."""
        connection = Connection(self, caller=True, targets=targets)
        self._open_connections.add(connection)
        self._calls.add(connection)
        self._await(connection, seconds)
        self._connect_next(connection, None)
        return connection

    def adopt(self, endpoint: socket.socket, *, caller: bool) -> Connection:
        """Serve a socket that is already connected."""
        connection = Connection(self, caller=caller)
        connection.connected = True
        self._open_connections.add(connection)
        self._open(connection, endpoint, selectors.EVENT_READ)
        if not caller:
            connection.send(self._greeting)
        return connection

    def keep(self, connection: Connection) -> None:
        """Keep a connection that has introduced itself: no deadline, and never dropped to make room."""
        self._strangers.pop(connection, None)
        self._calls.discard(connection)
        if connection.socket is not None:
            detect_silence(connection.socket)

    def release(self, connection: Connection) -> socket.socket:
        """Hand over the socket of a connection after its unsent bytes. Raises OSError if it has ended."""
        released = connection.socket
        if released is None:
            raise OSError(connection.why)
        self._selector.unregister(released)
        connection.socket = None
        self.end(connection, "released", tell=False)
        released.setblocking(True)
        released.sendall(connection.unsent)
        return released

    def end(self, connection: Connection, why: str, *, tell: bool = True) -> None:
        """Close a connection. With `tell`, `poll` reports it as an event without a message."""
        if connection not in self._open_connections:
            return
        self._open_connections.discard(connection)
        self._strangers.pop(connection, None)
        self._calls.discard(connection)
        self._drop_socket(connection)
        connection.why = why
        if tell:
            self._events.append((connection, None))

    def post(self, action: Callable[[], None]) -> None:
        """Run `action` in the thread that polls. This method may be called from any thread."""
        self._posted.append(action)
        with contextlib.suppress(OSError):
            self._wake_write.send(b"!")

    def poll(self, seconds: float) -> Iterator[tuple[Connection, Message | None]]:
        """Wait up to `seconds` for events. Yield each message, and None for a connection that has ended."""
        if self._events or self._posted:
            seconds = 0
        elif self._deadlines:
            seconds = min(seconds, self._deadlines[0][0] - time.monotonic())
        knock = False
        for key, mask in self._selector.select(max(0.0, seconds)):
            if key.data is None:
                with contextlib.suppress(OSError):
                    self._wake_read.recv(4096)
            elif key.data is self._listener:
                knock = True
            elif isinstance(key.data, Connection) and key.data in self._open_connections:
                self._serve(key.data, mask)
        # Accept last: a connection whose introduction has arrived must not be dropped for a new one.
        if knock:
            self._accept_some()
        while self._posted:
            self._posted.popleft()()
        self._end_overdue()
        while self._events:
            yield self._events.popleft()

    def flush(self, connection: Connection) -> None:
        """Send as much as the kernel takes."""
        if connection.socket is None:
            return
        try:
            while connection.unsent:
                sent = connection.socket.send(connection.unsent)
                del connection.unsent[:sent]
        except BlockingIOError:
            pass
        except OSError as error:
            self.end(connection, connect_problem(error))
            return
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.unsent else 0)
        if self._selector.get_key(connection.socket).events != wanted:
            self._selector.modify(connection.socket, wanted, connection)

    def close(self) -> None:
        """Close everything."""
        for connection in list(self._open_connections):
            self.end(connection, "closed", tell=False)
        self.stop_listening()
        self._selector.close()
        self._wake_read.close()
        self._wake_write.close()

    def open_files(self) -> list[selectors.BaseSelector | socket.socket | None]:
        """Return all open files, the selector first: a forked child shares it, and must not change it."""
        sockets = [connection.socket for connection in self._open_connections]
        return [self._selector, self._listener, self._wake_read, self._wake_write, *sockets]

    def _await(self, connection: Connection, seconds: float) -> None:
        heapq.heappush(self._deadlines, (time.monotonic() + seconds, next(self._numbers), connection))

    def _end_overdue(self) -> None:
        now = time.monotonic()
        while self._deadlines and self._deadlines[0][0] <= now:
            connection = heapq.heappop(self._deadlines)[2]
            if connection in self._strangers or connection in self._calls:
                self.end(connection, connect_problem(None))

    def _accept_some(self) -> None:
        for _ in range(256):
            if self._listener is None or not self._make_room():
                return
            try:
                endpoint, address = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    # File descriptors have run out: accept no more connections than there are now.
                    self._pending_limit = max(1, len(self._strangers))
                    time.sleep(0.01)
                    return
                continue
            connection = self.adopt(endpoint, caller=False)
            connection.host = plain_address(str(address[0]))
            if connection in self._open_connections:
                self._strangers[connection] = time.monotonic()
                self._await(connection, PENDING_SECONDS)

    def _make_room(self) -> bool:
        """Return whether one more connection fits in. The oldest is dropped once it has had its time."""
        if len(self._strangers) < self._pending_limit:
            return True
        oldest, since = next(iter(self._strangers.items()))
        wait = since + CHANCE_SECONDS - time.monotonic()
        if wait > 0:
            # The kernel keeps the others waiting meanwhile. A short sleep keeps this loop from spinning.
            time.sleep(min(wait, 0.005))
            return False
        self.end(oldest, "dropped to make room", tell=False)
        return True

    def _open(self, connection: Connection, endpoint: socket.socket, events: int) -> None:
        endpoint.setblocking(False)
        connection.socket = endpoint
        self._selector.register(endpoint, events, connection)

    def _drop_socket(self, connection: Connection) -> None:
        if connection.socket is not None:
            self._selector.unregister(connection.socket)
            connection.socket.close()
            connection.socket = None

    def _connect_next(self, connection: Connection, error: OSError | None) -> None:
        self._drop_socket(connection)
        while connection._targets:
            family, address = connection._targets.popleft()
            try:
                endpoint = socket.socket(family, socket.SOCK_STREAM)
                self._open(connection, endpoint, selectors.EVENT_WRITE)
            except OSError as failure:
                error = failure
                continue
            code = endpoint.connect_ex(address)
            if code in (0, errno.EINPROGRESS):
                return
            error = OSError(code, "")
            self._drop_socket(connection)
        self.end(connection, connect_problem(error))

    def _serve(self, connection: Connection, mask: int) -> None:
        if connection.socket is None:
            return
        if not connection.connected:
            code = connection.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                self._connect_next(connection, OSError(code, ""))
                return
            connection.connected = True
            self.flush(connection)
            return
        if mask & selectors.EVENT_WRITE:
            self.flush(connection)
        if mask & selectors.EVENT_READ and connection.socket is not None:
            self._receive(connection)

    def _receive(self, connection: Connection) -> None:
        assert connection.socket is not None
        try:
            data = connection.socket.recv(_RECEIVE)
        except BlockingIOError:
            return
        except OSError as error:
            self.end(connection, connect_problem(error))
            return
        if not data:
            self.end(connection, "hung up")
            return
        try:
            for message in connection.channel.decode(data):
                self._events.append((connection, message))
        except ChannelError as error:
            if (
                error.reason in ("wrong-token", "no-token", "needs-token")
                and not connection.channel.established
            ):
                # From this frame the other side learns that the tokens differ, and can report it.
                connection.send({"type": "refused"})
            self.end(connection, error.reason)

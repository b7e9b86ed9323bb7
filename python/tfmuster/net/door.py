"""Guard ports on which other code of this process listens: only known peers get in (Linux).

TensorFlow listens on all interfaces, asks nobody for a name, and runs what it is sent. The door attaches a
filter to its listening sockets (:mod:`.packet_filter`), in two stages:

*watched*
    Connections from the addresses of peers are made, and no others. A connection from this machine carries
    no data until the door has seen in /proc/net/tcp that the same user made it; one of another user is shut
    down.
*closed*
    No connection is made, but for those that a peer announces with their address and port
    (:meth:`Door.expect`). The kernel repeats a connection request after a second, so an announcement that
    arrives in this time costs nothing else.

Connections that stand are not touched. :mod:`.gated_door` does the same without filters.
"""

from __future__ import annotations

import contextlib
import functools
import ipaddress
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable
from typing import Final

from .addresses import plain_address
from .packet_filter import Rule, attach, detach, networks, program
from .socket_table import (
    CONNECTING,
    ESTABLISHED,
    LISTENING,
    UNCONNECTED,
    End,
    TableLine,
    borrowed,
    end_of,
    has_table,
    own_sockets,
    state_of,
    table,
)

#: The door closes when no peer has come for so long, in seconds.
QUIET_SECONDS: Final = 5.0
#: How long an announced connection may take to come, in seconds. TCP repeats its request after 1, 3 and 7.
EXPECTED_SECONDS: Final = 30.0

#: How often to look, in seconds: before anything listens, while connections are checked, and afterwards.
_SOON, _OFTEN, _SOMETIMES = 0.001, 0.02, 0.25
#: After so many seconds the door looks less often, even if nothing listens or the door is not closed.
_PATIENCE = 30.0
_LOOPBACK = ("127.0.0.0/8", "::1/128")


class Door(threading.Thread):
    """The door of a process for ports that other code opens. Start it before they are open.

    This machine is always among the peers. `announce` is called with both ends of a connection to a peer that
    this process tries to make; `refused` with the address of a connection that was shut down, and its user id
    if it was made here.
    """

    def __init__(
        self,
        ports: Iterable[int],
        peers: Iterable[str],
        announce: Callable[[End, End], None],
        refused: Callable[[str, int | None], None],
    ) -> None:
        super().__init__(name="tfmuster-door", daemon=True)
        self._ports = set(ports)
        self._peers = {plain_address(peer) for peer in peers}
        self._announce, self._refused = announce, refused
        self._expected: dict[End, float] = {}
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopped = self._may_close = self._changed = False
        #: ``watched`` or ``closed``.
        self.stage = "watched"
        self._came = 0.0
        self._listeners: dict[int, int] = {}
        self._settled: set[int] = set()
        self._announced: set[int] = set()
        #: Called once, when a port is open and guarded.
        self.on_open: Callable[[], None] | None = None
        #: Set when the first filter is attached.
        self.guarding = threading.Event()

    def guard(self, port: int) -> None:
        """Guard one more port."""
        self._ports.add(port)

    def admit(self, peers: Iterable[str]) -> None:
        """Add addresses of peers."""
        with self._lock:
            self._peers |= {plain_address(peer) for peer in peers}
            self._changed = True
        self._wake.set()

    def expect(self, end: End) -> None:
        """Let a connection from this address and port in."""
        with self._lock:
            self._expected[plain_address(end[0]), end[1]] = time.monotonic() + EXPECTED_SECONDS
            self._changed = True
        self._wake.set()

    def close_when_quiet(self, *, after_first: bool = False) -> None:
        """Close the door when no peer has come for `QUIET_SECONDS`.

        Call it when all peers are connected, or, with `after_first`, before the first one has come.
        """
        self._came = float("inf") if after_first else time.monotonic()
        self._may_close = True

    def stop(self) -> None:
        """End the thread. The filters stay."""
        self._stopped = True
        self._wake.set()

    def run(self) -> None:
        """Look at the sockets of this process until the end."""
        patient = time.monotonic() + _PATIENCE
        while not self._stopped:
            try:
                self._look()
            except OSError:
                # File descriptors may have run out for a while.
                self._changed = True
            self._wake.wait(self._pause(patient=time.monotonic() < patient))
            self._wake.clear()

    def _pause(self, *, patient: bool) -> float:
        """Return for how many seconds not to look."""
        if not self._listeners:
            return _SOON if patient else _SOMETIMES
        watched = self.stage == "watched" and patient
        return _OFTEN if watched or self._expected else _SOMETIMES

    def _look(self) -> None:
        now = time.monotonic()
        sockets = own_sockets()
        self._settled &= sockets.keys()
        self._announced &= sockets.keys()
        self._listeners = {inode: sockets[inode] for inode in self._listeners if inode in sockets}
        accepted: dict[int, int] = {}
        connecting: set[int] = set()
        for inode in sockets.keys() - self._settled:
            kind = self._kind(sockets[inode], inode)
            if kind == "listener":
                self._listeners[inode] = sockets[inode]
                self._changed = True
            elif kind == "accepted":
                accepted[inode] = sockets[inode]
            elif kind in ("connecting", "connected"):
                connecting.add(inode)
            if kind not in ("new", "connecting"):
                self._settled.add(inode)
        connecting -= self._announced
        self._update(now)
        if accepted or connecting:
            lines = table()
            for inode, descriptor in accepted.items():
                self._judge(descriptor, inode, lines)
                self._settled.add(inode)
            for line in lines:
                if line.inode in connecting and self._is_peer(line.there[0]):
                    self._announce(line.here, line.there)
            self._announced |= connecting

    def _kind(self, descriptor: int, inode: int) -> str:
        with borrowed(descriptor, inode) as connection:
            if connection is None:
                return "other"
            state = state_of(connection)
            if state == CONNECTING:
                return "connecting"
            if state == LISTENING:
                return "listener" if connection.getsockname()[1] in self._ports else "other"
            if state == UNCONNECTED:
                return "new"
            # Where the peer has no filter, the kernel connects at once.
            return "accepted" if connection.getsockname()[1] in self._ports else "connected"

    def _update(self, now: float) -> None:
        """Attach the filter of this moment to the listeners, if it has changed."""
        with self._lock:
            current = {end: until for end, until in self._expected.items() if until >= now}
            changed = self._changed or len(current) < len(self._expected)
            self._expected, self._changed = current, False
            expected, peers = list(current), set(self._peers)
        if self.stage == "watched" and self._may_close and now - self._came > QUIET_SECONDS:
            self.stage = "closed"
            changed = True
        if changed and self._listeners:
            self._apply(expected, peers)
            if self.on_open is not None:
                self.on_open()
                self.on_open = None

    def _apply(self, expected: list[End], peers: set[str]) -> None:
        """Let in, from now on, the connections of these ends, and in the first stage of these peers."""
        rules = []
        if self.stage == "watched":
            own = _own_addresses()
            here = [*map(ipaddress.ip_network, _LOOPBACK), *networks(own)]
            rules += [Rule(network, payload=False) for network in here]
            rules += [Rule(network) for network in networks(peers - own) if not network.is_loopback]
        try:
            code = program(
                [Rule(network, port) for host, port in expected for network in networks([host])] + rules
            )
        except ValueError:
            # Hundreds at once: check their addresses in the filter, and their ports when they have come.
            hosts = networks(host for host, _ in expected)
            code = program([Rule(network, payload=False) for network in hosts] + rules)
        for inode, descriptor in self._listeners.items():
            with borrowed(descriptor, inode) as listener:
                if listener is not None:
                    attach(listener, code)
                    self.guarding.set()

    def _judge(self, descriptor: int, inode: int, lines: list[TableLine]) -> None:
        """Let an accepted connection go on, or shut it down."""
        with borrowed(descriptor, inode) as connection:
            if connection is None:
                return
            try:
                here, there = end_of(connection.getsockname()), end_of(connection.getpeername())
            except OSError:
                return  # it has ended
            client = next((line for line in lines if (line.here, line.there) == (there, here)), None)
            if client is not None:
                # A socket whose process has closed it belongs to root in this table.
                welcome = client.state == ESTABLISHED and client.uid == os.geteuid()
            else:
                welcome = self._is_welcome(there)
            if welcome:
                self._came = time.monotonic()
                with self._lock:
                    self._changed |= self._expected.pop(there, None) is not None
                with contextlib.suppress(OSError):  # made before the listener had a filter
                    detach(connection)
                return
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._refused(there[0], client.uid if client is not None else None)

    def _is_welcome(self, end: End) -> bool:
        """Return whether a connection from another machine may go on."""
        if end in self._expected:
            return True
        here = ipaddress.ip_address(end[0]).is_loopback or end[0] in _own_addresses()
        return self.stage == "watched" and not here and self._is_peer(end[0])

    def _is_peer(self, host: str) -> bool:
        address = ipaddress.ip_address(host)
        with self._lock:
            peers = set(self._peers)
        return address.is_loopback or any(address in network for network in networks(peers))


def _own_addresses() -> set[str]:
    import psutil

    kinds = (socket.AF_INET, socket.AF_INET6)
    return {
        plain_address(address.address)
        for addresses in psutil.net_if_addrs().values()
        for address in addresses
        if address.family in kinds
    }


@functools.cache
def filters_work() -> str | None:
    """Try a filter on a socket of this machine, once. Return why it does not work, or None if it does."""
    if not has_table():
        return "this system has no /proc/net/tcp"
    with socket.socket() as listener, socket.socket() as caller:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        try:
            attach(listener, program([]))
        except OSError as error:
            return f"the kernel refuses socket filters ({os.strerror(error.errno or 0).lower()})"
        caller.settimeout(0.1)
        try:
            caller.connect(listener.getsockname())
        except TimeoutError:
            return None
        return "socket filters have no effect here"

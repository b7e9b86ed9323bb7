"""Open ports, find free ones and the holders of others, look up names, and explain lost connections."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import selectors
import socket
import sys
import threading
import time
import weakref
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from ..errors import LaunchError
from .addresses import split_address

#: The part of an answer of `socket.getaddrinfo` that connecting needs.
SocketAddress = tuple[int, tuple[Any, ...]]

#: Well-known services use lower ports.
_LOWEST_PORT = 12_000
#: How long a peer's machine may be silent at the TCP level before the connection counts as lost, in seconds.
#: TensorFlow allows about six. The first packet without an answer comes up to a heartbeat after the loss; so
#: a machine is named within 10 s also if this one is busy.
SILENT_SECONDS = 7


def listen(port: int, *, backlog: int = 4096) -> socket.socket:
    """Open a non-blocking listener on `port` of all interfaces, IPv6 and IPv4. Raises OSError.

    It listens on all interfaces because behind NAT or in a container the machine does not have the address
    that the cluster names. SO_REUSEADDR allows for connections of an earlier job in TIME_WAIT. SO_REUSEPORT
    is not set, because it would let two jobs share the port.
    """
    for family in (socket.AF_INET6, socket.AF_INET):
        listener: socket.socket | None = None
        try:
            listener = socket.socket(family)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("", port))
            listener.listen(backlog)
            listener.setblocking(False)
        except OSError as error:
            if listener is not None:
                listener.close()
            # Otherwise the kernel has no IPv6, or it is disabled (net.ipv6.conf.all.disable_ipv6).
            if family == socket.AF_INET or error.errno in (errno.EADDRINUSE, errno.EACCES):
                raise
        else:
            return listener
    raise AssertionError


def listen_patiently(port: int, seconds: float) -> socket.socket:
    """Call `listen`, and retry for some seconds while the port is taken: an earlier job may be ending."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return listen(port)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or time.monotonic() > deadline:
                raise
        time.sleep(0.1)


@contextlib.contextmanager
def reserved_ports(count: int) -> Iterator[list[int]]:
    """Reserve `count` free ports of all interfaces until the block ends, from all programs, workers included.

    If there is room, they lie below the kernel's range for outgoing connections. Otherwise any connection of
    any program could take one before it is used.
    """
    lowest = _lowest_ephemeral_port()
    chance = random.SystemRandom()
    with contextlib.ExitStack() as held:
        ports: list[int] = []
        for attempt in range(20 * count + 100):
            if len(ports) == count:
                break
            below = lowest > _LOWEST_PORT and attempt < 10 * count + 50
            with contextlib.suppress(OSError):
                holder = _bound(chance.randrange(_LOWEST_PORT, lowest) if below else 0)
                held.enter_context(holder)
                ports.append(int(holder.getsockname()[1]))
        if len(ports) < count:
            raise OSError(errno.EADDRINUSE, f"there are no {count} free ports")
        yield ports


def _lowest_ephemeral_port() -> int:
    try:
        with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
            return int(file.read().split()[0])
    except (OSError, ValueError):
        return 0


def free_ports(count: int) -> list[int]:
    """Return `count` different ports that no process holds at this moment."""
    with reserved_ports(count) as ports:
        return ports


def check_loopback(host: str = "127.0.0.1") -> None:
    """Raise LaunchError (reason ``machine``) unless the programs of this machine reach each other."""
    try:
        with socket.create_server((host, 0)) as server:
            socket.create_connection(server.getsockname(), timeout=5).close()
    except OSError as error:
        raise LaunchError(
            f"The programs of this machine must reach each other at {host}.",
            found=error.strerror or str(error),
            fix="Bring the loopback interface up: ip link set lo up",
            reason="machine",
        ) from error


@contextlib.contextmanager
def held_ports(count: int) -> Iterator[list[int]]:
    """Hold `count` ports of all interfaces until the block ends, so that only workers can listen on them.

    On Linux a bound socket that does not listen keeps its port from processes that ask for any free one. A
    process that names the port and sets SO_REUSEADDR, as gRPC does, can still use it. On other systems the
    ports are free only at the start. Raises LaunchError if there are too few (reason ``ports``).
    """
    with contextlib.ExitStack() as held:
        ports: list[int] = []
        for _ in range(count):
            try:
                holder = held.enter_context(_bound(0))
            except OSError as error:
                raise LaunchError(
                    f"{count} ports must be free.",
                    found=f"{len(ports)}: {error.strerror}",
                    fix="Start fewer workers on this machine.",
                    reason="ports",
                ) from error
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            ports.append(int(holder.getsockname()[1]))
        if sys.platform != "linux":
            held.close()
        yield ports


def _bound(port: int) -> socket.socket:
    """Bind a socket to `port` of all IPv4 interfaces without listening; 0 takes any port. Raises OSError."""
    holder = socket.socket(socket.AF_INET)
    try:
        holder.bind(("0.0.0.0", port))
    except OSError:
        holder.close()
        raise
    return holder


def port_holder(port: int) -> dict[str, Any] | None:
    """Return ``pid`` and ``name`` of the process on a TCP port; None if it is free, or can't be seen."""
    import psutil

    try:
        connections = psutil.net_connections(kind="tcp")
    except (psutil.AccessDenied, OSError):
        return None
    holders = [c for c in connections if c.laddr and c.laddr.port == port and c.pid]
    holders.sort(key=lambda c: c.status != psutil.CONN_LISTEN)
    for connection in holders:
        try:
            return {"pid": connection.pid, "name": psutil.Process(connection.pid).name()}
        except psutil.Error:
            continue
    return None


def port_problem(port: int, error: OSError) -> dict[str, Any]:
    """Explain why `port` can't be used: ``port``, ``reason``; if known, ``holder`` (name), ``holder_pid``."""
    if error.errno != errno.EADDRINUSE:
        return {"port": port, "reason": os.strerror(error.errno or 0).lower()}
    holder = port_holder(port)
    known = {"holder": holder["name"], "holder_pid": holder["pid"]} if holder else {}
    return {"port": port, "reason": "taken", **known}


class Resolver:
    """Looks up host names without blocking, so that a slow name server does not delay other tasks."""

    def __init__(self) -> None:
        self._answers: dict[str, list[SocketAddress] | str] = {}
        self._asked: set[str] = set()

    def addresses(self, address: str) -> list[SocketAddress] | str | None:
        """Return socket addresses of ``"host:port"``, why there are none, or None while the lookup runs."""
        if address not in self._asked:
            self._asked.add(address)
            host, port = split_address(address)
            try:
                self._answers[address] = _look_up(host, port, socket.AI_NUMERICHOST)
            except OSError:
                threading.Thread(target=self._ask, args=(address, host, port), daemon=True).start()
        return self._answers.get(address)

    def forget(self, address: str) -> None:
        """Look the name up again next time: the name of a container appears with the container."""
        if self._answers.pop(address, None) is not None:
            self._asked.discard(address)

    def _ask(self, address: str, host: str, port: int) -> None:
        try:
            self._answers[address] = _look_up(host, port, 0)
        except (OSError, UnicodeError):
            self._answers[address] = f"the name {host!r} does not resolve on {socket.gethostname()}"


def _look_up(host: str, port: int, flags: int) -> list[SocketAddress]:
    infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    return [(int(family), sockaddr) for family, _, _, _, sockaddr in infos]


def connect_problem(error: OSError | None) -> str:
    """Explain in words why a connection failed; None means that nothing answered in time."""
    if error is None or isinstance(error, TimeoutError):
        return "no answer (a firewall, or the machine is down)"
    if error.errno == errno.ECONNREFUSED:
        return "connection refused (nothing listens there)"
    if error.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH):
        return "no route to the host"
    return os.strerror(error.errno or 0).lower()


def detect_silence(connection: socket.socket) -> None:
    """Let the kernel detect a machine that is gone, because Python or R may be busy for long."""
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in (
            ("TCP_KEEPIDLE", SILENT_SECONDS // 2),
            ("TCP_KEEPINTVL", SILENT_SECONDS // 4),
            ("TCP_KEEPCNT", 2),
            ("TCP_USER_TIMEOUT", SILENT_SECONDS * 1000),
        ):
            if hasattr(socket, option):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


class Owner(Protocol):
    """Something with open files, which it lists in the order in which to close them."""

    def open_files(self) -> Iterable[selectors.BaseSelector | socket.socket | None]: ...  # noqa: D102


_owners: weakref.WeakSet[Owner] = weakref.WeakSet()


def close_in_children(owner: Owner) -> None:
    """Close the files of ``owner`` in every process that is forked from now on.

    A child's copy of a connection would keep it alive when this process is gone, and the other side would
    not notice.
    """
    _owners.add(owner)


def _close_inherited() -> None:
    for owner in list(_owners):
        for file in owner.open_files():
            if file is not None:
                file.close()
    _owners.clear()


os.register_at_fork(after_in_child=_close_inherited)

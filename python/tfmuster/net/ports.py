"""Ports and names: open one, find free ones, say who holds one, and say why an address can't be reached."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import socket
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from .addresses import split_address

#: What `socket.getaddrinfo` gives, reduced to what connecting needs.
SocketAddress = tuple[int, tuple[Any, ...]]

#: Below it are the ports of well-known services.
_LOWEST_PORT = 12_000


def listen(port: int, *, backlog: int = 4096) -> socket.socket:
    """A non-blocking listener on `port` of all interfaces, IPv6 and IPv4; raises OSError.

    All interfaces, because behind NAT or in a container the address that the cluster names is not one of this
    machine's. SO_REUSEADDR, because connections of an earlier job may linger in TIME_WAIT, and never
    SO_REUSEPORT, which would let two jobs share the port.
    """
    try:
        listener = socket.socket(socket.AF_INET6)
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        everywhere = "::"
    except OSError:
        listener = socket.socket(socket.AF_INET)
        everywhere = "0.0.0.0"
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((everywhere, port))
        except OSError as error:
            if error.errno != errno.EADDRNOTAVAIL:
                raise
            # IPv6 is built in but switched off (net.ipv6.conf.all.disable_ipv6).
            listener.close()
            listener = socket.socket(socket.AF_INET)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("0.0.0.0", port))
        listener.listen(backlog)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


def listen_patiently(port: int, seconds: float) -> socket.socket:
    """`listen`, tried again for some seconds if the port is taken: an earlier job may be ending."""
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
    """`count` ports free on all interfaces, kept from every program, workers too, until the block ends.

    They lie below the range that the kernel takes the near ends of outgoing connections from, where there is
    room: otherwise any connection of any program could take one before it is used.
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
    """`count` different ports that nobody holds at this moment."""
    with reserved_ports(count) as ports:
        return ports


@contextlib.contextmanager
def held_ports(count: int) -> Iterator[list[int]]:
    """`count` ports of all interfaces that no other program gets until the block ends, but workers can use.

    On Linux a bound socket that does not listen keeps its port from those who ask for any free one, and lets
    those pass who name it with SO_REUSEADDR, as gRPC does. Elsewhere the ports are free only at the start.
    """
    with contextlib.ExitStack() as held:
        ports: list[int] = []
        for _ in range(count):
            holder = held.enter_context(_bound(0))
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            ports.append(int(holder.getsockname()[1]))
        if sys.platform != "linux":
            held.close()
        yield ports


def _bound(port: int) -> socket.socket:
    """A socket that has `port` of all IPv4 interfaces and does not listen; 0: a port that the system chooses.

    Raises
    ------
    OSError
        The port is taken, or no port is left.
    """
    holder = socket.socket(socket.AF_INET)
    try:
        holder.bind(("0.0.0.0", port))
    except BaseException:
        holder.close()
        raise
    return holder


def port_holder(port: int) -> dict[str, Any] | None:
    """Who holds a TCP port of this machine: ``{"pid": int, "name": str}``.

    None if nobody does, or if the process is another user's and so can't be seen.
    """
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
    """Why `port` can't be had: ``port``, ``reason``, and if known ``holder`` (a name) and ``holder_pid``."""
    if error.errno != errno.EADDRINUSE:
        return {"port": port, "reason": os.strerror(error.errno or 0).lower()}
    holder = port_holder(port)
    known = {"holder": holder["name"], "holder_pid": holder["pid"]} if holder else {}
    return {"port": port, "reason": "taken", **known}


def room_for_strangers(tasks: int) -> int:
    """How many connections that have not introduced themselves a process may hold in a cluster of `tasks`.

    A quarter of the files it may open, so that they can't take the place of a task. The limit of open files
    is raised for it as far as the system allows.
    """
    wanted = 1024 + 2 * tasks
    try:
        import resource
    except ImportError:
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    raised = 4 * wanted if hard == resource.RLIM_INFINITY else min(4 * wanted, hard)
    if raised > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
    return min(wanted, max(raised, soft) // 4)


class Resolver:
    """Looks host names up without blocking: a slow name server must not hold up the tasks that are here."""

    def __init__(self) -> None:
        self._answers: dict[str, list[SocketAddress] | str] = {}
        self._asked: set[str] = set()

    def addresses(self, address: str) -> list[SocketAddress] | str | None:
        """Socket addresses of ``"host:port"``, or why there are none, or None while the look-up runs."""
        if address not in self._asked:
            self._asked.add(address)
            host, port = split_address(address)
            try:
                self._answers[address] = _look_up(host, port, socket.AI_NUMERICHOST)
            except OSError:
                threading.Thread(target=self._ask, args=(address, host, port), daemon=True).start()
        return self._answers.get(address)

    def forget(self, address: str) -> None:
        """Ask anew next time; names of containers appear when the container does."""
        if self._answers.pop(address, None) is not None:
            self._asked.discard(address)

    def _ask(self, address: str, host: str, port: int) -> None:
        try:
            self._answers[address] = _look_up(host, port, 0)
        except (OSError, UnicodeError):
            self._answers[address] = f"the name {host!r} does not resolve on {socket.gethostname()}"


def _look_up(host: str, port: int, flags: int) -> list[SocketAddress]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    return [(int(family), sockaddr) for family, _, _, _, sockaddr in found]


def connect_problem(error: OSError | None) -> str:
    """Why a connection could not be made, in words; None means that nothing answered in time."""
    if error is None or isinstance(error, TimeoutError):
        return "no answer (a firewall, or the machine is down)"
    if error.errno == errno.ECONNREFUSED:
        return "connection refused (nothing listens there)"
    if error.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH):
        return "no route to the host"
    return os.strerror(error.errno or 0).lower()

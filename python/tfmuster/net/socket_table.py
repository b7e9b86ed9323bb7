"""Read the TCP sockets of this process and of this machine from /proc (Linux)."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import os
import socket
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .addresses import plain_address

ESTABLISHED: Final = 1
CONNECTING: Final = 2
UNCONNECTED: Final = 7
LISTENING: Final = 10

#: An IP address and a port.
End = tuple[str, int]


@dataclass(frozen=True)
class TableLine:
    """A socket as the kernel lists it: its two ends, state, owner's user id, and inode."""

    here: End
    there: End
    state: int
    uid: int
    inode: int


def has_table() -> bool:
    """Return whether this system lists its TCP sockets."""
    return os.path.exists("/proc/self/net/tcp")


def table() -> list[TableLine]:
    """Return all TCP sockets of this network namespace. Raises OSError without /proc."""
    lines: list[TableLine] = []
    for name in ("tcp", "tcp6"):
        try:
            text = Path("/proc/self/net", name).read_text()
        except FileNotFoundError:
            if name == "tcp":
                raise
            continue  # a kernel without IPv6
        for line in text.splitlines()[1:]:
            _, here, there, state, _, _, _, uid, _, inode, *_ = line.split()
            lines.append(TableLine(_end(here), _end(there), int(state, 16), int(uid), int(inode)))
    return lines


def own_sockets() -> dict[int, int]:
    """Return the sockets of this process: inode -> file descriptor."""
    sockets = {}
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # closed meanwhile
            status = os.fstat(int(name))
            if stat.S_ISSOCK(status.st_mode):
                sockets[status.st_ino] = int(name)
    return sockets


@contextlib.contextmanager
def borrowed(descriptor: int, inode: int) -> Iterator[socket.socket | None]:
    """Yield a socket of this process; None if closed or not TCP. Raises OSError if out of descriptors."""
    try:
        connection = socket.socket(fileno=os.dup(descriptor))
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise
        yield None
        return
    with connection:
        tcp = connection.family in (socket.AF_INET, socket.AF_INET6) and connection.type == socket.SOCK_STREAM
        yield connection if tcp and os.fstat(connection.fileno()).st_ino == inode else None


def state_of(connection: socket.socket) -> int:
    """Return the state of a TCP socket. Raises OSError."""
    return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]


def end_of(name: tuple[object, ...]) -> End:
    """Return what ``getsockname`` and ``getpeername`` return as address and port."""
    return plain_address(str(name[0])), int(str(name[1]))


def _end(text: str) -> End:
    digits, _, port = text.partition(":")
    # The kernel writes each word of 32 bits in the byte order of the machine.
    words = [int(digits[at : at + 8], 16) for at in range(0, len(digits), 8)]
    return plain_address(str(ipaddress.ip_address(struct.pack(f"={len(words)}I", *words)))), int(port, 16)

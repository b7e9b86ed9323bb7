"""What sockets of a connection need from the kernel."""

from __future__ import annotations

import contextlib
import os
import socket
import weakref
from collections.abc import Iterable
from typing import Protocol

#: How long a peer's machine may be silent at the TCP level before the connection counts as lost, in seconds.
#: TensorFlow allows about six. The first packet without an answer comes up to a heartbeat after the loss; so
#: a machine is named within 10 s also if this one is busy.
SILENT_SECONDS = 7


def detect_silence(made: socket.socket) -> None:
    """Let the kernel detect a machine that is gone, because Python or R may be busy for long."""
    with contextlib.suppress(OSError):
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in (
            ("TCP_KEEPIDLE", SILENT_SECONDS // 2),
            ("TCP_KEEPINTVL", SILENT_SECONDS // 4),
            ("TCP_KEEPCNT", 2),
            ("TCP_USER_TIMEOUT", SILENT_SECONDS * 1000),
        ):
            if hasattr(socket, option):
                made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


class _Closable(Protocol):
    def close(self) -> None: ...


class Owner(Protocol):
    """Something with open files."""

    def open_files(self) -> Iterable[_Closable | None]:
        """Return all files, in the order in which to close them."""
        ...


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

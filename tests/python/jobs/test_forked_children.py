"""What a forked child does to the connections of its parent."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from tfmuster.net.connections import Connections


@contextmanager
def forked_child(peer: socket.socket) -> Iterator[None]:
    """Inside the block there is a child of this process, which does nothing, and does not have ``peer``."""
    stay, end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(end)
        peer.close()
        os.read(stay, 1)
        os._exit(0)
    try:
        yield
    finally:
        os.close(stay)
        os.close(end)
        assert os.waitpid(child, 0)[1] == 0


def test_a_forked_child_does_not_keep_a_connection_alive() -> None:
    connections = Connections(token=None, pending_limit=4)
    own, peer = socket.socketpair()
    peer.settimeout(5)
    connections.adopt(own, caller=True)
    with forked_child(peer):
        connections.close()
        assert peer.recv(1) == b""


def test_the_parent_keeps_its_connections_after_a_fork() -> None:
    connections = Connections(token=None, pending_limit=4)
    own, peer = socket.socketpair()
    connections.adopt(own, caller=True)
    with forked_child(peer):
        peer.close()
        ended = [message for _, message in connections.poll(5)]
        assert ended == [None]
    connections.close()

"""Ports that are found, kept and looked up on this machine."""

from __future__ import annotations

import os
import socket
import sys

import pytest

from tfmuster.net.ports import free_ports, held_ports, listen, port_holder, reserved_ports


def test_reserved_ports_are_different_and_given_to_nobody_else() -> None:
    with reserved_ports(200) as ports:
        assert len(set(ports)) == 200
        with pytest.raises(OSError, match="in use"):
            listen(ports[0])
    listen(ports[0]).close()


def test_free_ports_are_different_and_can_be_used_at_once() -> None:
    ports = free_ports(50)
    assert len(set(ports)) == 50
    for port in ports:
        listen(port).close()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere ports are free only at the start")
def test_held_ports_are_the_workers_and_nobody_elses() -> None:
    with held_ports(4) as ports:
        assert len(set(ports)) == 4
        for port in ports:
            with socket.socket() as stranger, pytest.raises(OSError):
                stranger.bind(("127.0.0.1", port))
            # As gRPC does.
            with socket.socket(socket.AF_INET6) as server:
                server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
                server.bind(("::", port))
                server.listen()
                socket.create_connection(("127.0.0.1", port), timeout=5).close()


def test_held_ports_are_free_when_the_block_has_ended() -> None:
    with held_ports(3) as ports:
        assert len(set(ports)) == 3
    for port in ports:
        with socket.socket() as other:
            other.bind(("0.0.0.0", port))


def test_the_holder_of_a_port_is_found() -> None:
    with socket.create_server(("", 0)) as server:
        port = server.getsockname()[1]
        assert port_holder(port)["pid"] == os.getpid()
    # Closed now, and so nobody's.
    assert port_holder(port) is None

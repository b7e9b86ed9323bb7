"""Filters of listening sockets, tried on sockets of this machine."""

from __future__ import annotations

import ipaddress
import socket
import sys
import time
from collections.abc import Iterator

import pytest

from tfmuster.net.packet_filter import Rule, attach, detach, networks, program

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's socket filters")

HERE = {4: "127.0.0.1", 6: "::1"}


@pytest.fixture(params=[4, 6, "4 on 6"])
def case(request: pytest.FixtureRequest) -> Iterator[tuple[socket.socket, str]]:
    """A listener, and the address by which to call it: IPv4, IPv6, and IPv4 of a listener for both."""
    version = 6 if request.param == "4 on 6" else request.param
    host = HERE[4 if request.param == "4 on 6" else version]
    with socket.socket(socket.AF_INET if version == 4 else socket.AF_INET6) as listener:
        if version == 6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind(("0.0.0.0" if version == 4 else "::", 0))
        listener.listen()
        listener.settimeout(5)
        yield listener, host


def call(case: tuple[socket.socket, str], port: int = 0) -> socket.socket | None:
    """Connect, from a port if it is given; None if nothing answers."""
    listener, host = case
    caller = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    caller.settimeout(0.2)
    if port:
        caller.bind((host, port))
    try:
        caller.connect((host, listener.getsockname()[1]))
    except TimeoutError:
        caller.close()
        return None
    return caller


def network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    return ipaddress.ip_network(text)


def test_an_empty_program_lets_nobody_in(case: tuple[socket.socket, str]) -> None:
    attach(case[0], program([]))
    assert call(case) is None


@pytest.mark.parametrize(
    ("rules", "enters"),
    [
        (["127.0.0.0/8", "::1/128"], True),
        (["127.0.0.1/32", "::1/128"], True),
        (["127.0.0.2/32", "::2/128"], False),
        (["10.0.0.0/8", "fd00::/64"], False),
        (["10.0.0.0/8", "fd00::/64", "127.0.0.0/30", "::/64"], True),
        (["0.0.0.0/0", "::/0"], True),
    ],
)
def test_the_network_decides(case: tuple[socket.socket, str], rules: list[str], enters: bool) -> None:
    attach(case[0], program(Rule(network(rule)) for rule in rules))
    made = call(case)
    assert (made is not None) is enters
    if made is not None:
        made.close()


def test_a_port_decides(case: tuple[socket.socket, str]) -> None:
    with socket.socket(socket.AF_INET6 if ":" in case[1] else socket.AF_INET) as free:
        free.bind((case[1], 0))
        port = free.getsockname()[1]
    attach(case[0], program([Rule(network(case[1]), port)]))
    assert call(case) is None
    made = call(case, port)
    assert made is not None
    made.close()


def test_a_connection_without_payload_carries_data_once_its_filter_is_detached(
    case: tuple[socket.socket, str],
) -> None:
    attach(case[0], program([Rule(network(case[1]), payload=False)]))
    caller = call(case)
    assert caller is not None
    with caller, case[0].accept()[0] as accepted:
        caller.sendall(b"let me in")
        accepted.settimeout(0.3)
        with pytest.raises(TimeoutError):
            accepted.recv(100)
        accepted.settimeout(5)
        accepted.sendall(b"answers pass")
        caller.settimeout(5)
        assert caller.recv(100) == b"answers pass"
        detach(accepted)
        # TCP repeats what was dropped.
        assert accepted.recv(100) == b"let me in"


def test_an_established_connection_keeps_the_filter_that_it_was_made_with(
    case: tuple[socket.socket, str],
) -> None:
    attach(case[0], program([Rule(network(case[1]))]))
    caller = call(case)
    assert caller is not None
    with caller, case[0].accept()[0] as accepted:
        attach(case[0], program([]))
        caller.sendall(b"x" * 100_000)
        received, end = 0, time.monotonic() + 5
        while received < 100_000 and time.monotonic() < end:
            received += len(accepted.recv(65_536))
        assert received == 100_000
    assert call(case) is None


def test_many_addresses_become_networks() -> None:
    few = [f"10.0.{i}.{j}" for i in range(2) for j in range(100)]
    assert len(networks(few)) == 200
    many = [f"10.0.{i}.{j}" for i in range(20) for j in range(100)]
    assert networks(many) == sorted((network(f"10.0.{i}.0/24") for i in range(20)), key=str)
    assert networks(["::ffff:10.0.0.1", "fe80::1%eth0", "no address"]) == [
        network("10.0.0.1/32"),
        network("fe80::1/128"),
    ]


def test_a_program_that_is_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match="longer than 4096"):
        program(Rule(network(f"10.{i // 250}.{i % 250}.1/32"), 80) for i in range(3000))

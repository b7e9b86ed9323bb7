"""Addresses and their hosts."""

from __future__ import annotations

import pytest

from tfmuster.net.addresses import host_key, is_loopback, split_address


@pytest.mark.parametrize(
    ("host", "key"),
    [
        ("A.Example.org.", "a.example.org"),
        ("127.0.0.5", "localhost"),
        ("::1", "localhost"),
        ("::ffff:127.0.0.1", "localhost"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("x.localhost", "localhost"),
        ("127.0.0.1.example.org", "127.0.0.1.example.org"),
        ("2001:DB8::1", host_key("2001:db8:0:0::1")),
    ],
)
def test_two_spellings_of_one_host(host: str, key: str) -> None:
    assert host_key(host) == key


def test_addresses() -> None:
    assert split_address("[2001:db8::1]:2222") == ("2001:db8::1", 2222)
    assert split_address("a.b:1") == ("a.b", 1)
    assert is_loopback("[::1]:1")
    assert not is_loopback("a:1")

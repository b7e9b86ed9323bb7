"""What is made of the addresses that MPI's ranks tell each other."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfmuster.cluster.resolvers.mpi import Peer, choose_hosts, this_peer
from tfmuster.cluster.resolvers.mpi_exchange import LONGEST


def peer(name: str, *addresses: str) -> Peer:
    return Peer(name, 1, addresses)


@pytest.mark.parametrize(
    ("peers", "hosts"),
    [
        # One machine.
        ([peer("a", "10.0.0.1/24"), peer("a", "10.0.0.1/24")], ["127.0.0.1"] * 2),
        # One network.
        ([peer("a", "10.0.0.1/24"), peer("b", "10.0.0.2/24")], ["10.0.0.1", "10.0.0.2"]),
        # The first that all have, of the first task's.
        (
            [
                peer("a", "192.168.5.1/24", "10.0.0.1/16", "10.1.0.1/16"),
                peer("b", "10.1.0.2/16", "10.0.7.2/16"),
                peer("b", "10.1.0.2/16", "10.0.7.2/16"),
            ],
            ["10.0.0.1", "10.0.7.2", "10.0.7.2"],
        ),
        # A bridge of containers, which is another one on every machine.
        (
            [peer("a", "172.17.0.1/16", "10.0.0.1/24"), peer("b", "172.17.0.1/16", "10.0.0.2/24")],
            ["10.0.0.1", "10.0.0.2"],
        ),
        # Networks that a router joins.
        ([peer("a", "10.0.0.1/24"), peer("b", "10.0.1.2/24")], ["a", "b"]),
        ([peer("a"), peer("b", "10.0.1.2/24")], ["a", "b"]),
    ],
)
def test_the_hosts_of_the_addresses(peers: list[Peer], hosts: list[str]) -> None:
    assert choose_hosts(peers) == hosts
    assert choose_hosts(peers, one_machine=True) == ["127.0.0.1"] * len(peers)


machines = st.dictionaries(
    st.sampled_from("abcd"),
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 9)), max_size=3, unique=True),
    min_size=1,
)


@given(machines, st.lists(st.sampled_from("abcd"), max_size=6))
def test_each_machine_has_one_host_that_is_no_other_s(
    machines: dict[str, list[tuple[int, int]]], more: list[str]
) -> None:
    names = [*machines, *(name for name in more if name in machines)]
    peers = [peer(name, *(f"10.0.{net}.{host}/24" for net, host in machines[name])) for name in names]
    hosts = choose_hosts(peers)
    pairs = set(zip(names, hosts, strict=True))
    assert len(pairs) == len(machines)
    if len(machines) > 1:
        assert len({host for _, host in pairs}) == len(machines)


def test_what_a_machine_tells_of_itself_fits_into_an_exchange() -> None:
    mine = this_peer(65_535)
    assert Peer(*json.loads(json.dumps(mine))) == mine
    assert not any(address.startswith("127.") for address in mine.addresses)
    largest = peer("n" * 64, *["255.255.255.255/32"] * 12)
    assert len(json.dumps([*largest, "0" * 32])) * 4 / 3 + 4 < LONGEST

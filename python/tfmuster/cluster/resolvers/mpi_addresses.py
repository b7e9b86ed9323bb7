"""By which address the machines of a job reach each other, from what each knows of itself."""

from __future__ import annotations

import ipaddress
import json
import socket
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

#: As many addresses of a machine are told to the others: they have to fit into an exchange.
_MOST_ADDRESSES = 12


@dataclass(frozen=True)
class Peer:
    """What a task tells of its machine.

    Attributes
    ----------
    name : str
        The machine's name.
    port : int
        Where the task will listen.
    addresses : tuple of str
        IPv4 addresses with the lengths of their networks' prefixes, ``10.0.0.1/24``, the best first.
    """

    name: str
    port: int
    addresses: tuple[str, ...]

    def to_text(self) -> str:
        """In a line without blanks."""
        return json.dumps([self.name, self.port, *self.addresses], separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> Peer:
        """What :meth:`to_text` was made of."""
        name, port, *addresses = json.loads(text)
        return cls(name, port, tuple(addresses))


def this_peer(port: int) -> Peer:
    """What this machine knows of itself; the address that its name stands for comes first."""
    import psutil

    name = socket.gethostname()
    try:
        own = {str(found[4][0]) for found in socket.getaddrinfo(name, None, socket.AF_INET)}
    except OSError:
        own = set()
    up = {interface for interface, state in psutil.net_if_stats().items() if state.isup}
    addresses = [
        (
            each.address not in own,
            f"{each.address}/{ipaddress.ip_network(f'0.0.0.0/{each.netmask}').prefixlen}",
        )
        for interface, found in psutil.net_if_addrs().items()
        if interface in up
        for each in found
        if each.family == socket.AF_INET and each.netmask
    ]
    usable = [text for _, text in sorted(addresses, key=lambda pair: pair[0]) if _is_usable(text)]
    return Peer(name, port, tuple(usable[:_MOST_ADDRESSES]))


def choose_hosts(peers: Sequence[Peer], *, one_machine: bool = False) -> list[str]:
    """For each task the host of its address; the same on every machine.

    An address of a network in which all machines have one; the machines' names, if there is no such network.

    Parameters
    ----------
    peers : sequence of Peer
        All tasks.
    one_machine : bool
        Whether they are known to be on one machine.
    """
    machines = {peer.name: peer for peer in peers}
    if one_machine or len(machines) == 1:
        return ["127.0.0.1"] * len(peers)
    # Bridges of containers and virtual machines have one address on every machine.
    often = Counter(text.partition("/")[0] for peer in machines.values() for text in peer.addresses)
    for network in _networks(peers[0]):
        chosen = {
            name: _first_in(network, (text for text in peer.addresses if often[text.partition("/")[0]] == 1))
            for name, peer in machines.items()
        }
        if all(chosen.values()):
            return [str(chosen[peer.name]) for peer in peers]
    return [peer.name for peer in peers]


def _networks(peer: Peer) -> Iterable[ipaddress.IPv4Network]:
    return (ipaddress.IPv4Network(text, strict=False) for text in peer.addresses)


def _first_in(network: ipaddress.IPv4Network, addresses: Iterable[str]) -> str | None:
    found = (text.partition("/")[0] for text in addresses)
    return next((text for text in found if ipaddress.IPv4Address(text) in network), None)


def _is_usable(text: str) -> bool:
    address = ipaddress.IPv4Interface(text)
    return not (address.is_loopback or address.is_link_local or address.is_unspecified)

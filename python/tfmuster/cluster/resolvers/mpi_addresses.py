"""Choose the addresses by which the machines of a job reach each other, from what each reports."""

from __future__ import annotations

import ipaddress
import json
import socket
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

#: Number of addresses that a machine reports at most, because they must fit into one exchange.
_MOST_ADDRESSES = 12


@dataclass(frozen=True)
class Peer:
    """A task's report about its machine.

    Attributes
    ----------
    name : str
        Host name of the machine.
    port : int
        Port on which the task will listen.
    addresses : tuple of str
        IPv4 addresses with prefix lengths, such as ``10.0.0.1/24``, the best first.
    """

    name: str
    port: int
    addresses: tuple[str, ...]

    def to_text(self) -> str:
        """Write the report as one line without blanks."""
        return json.dumps([self.name, self.port, *self.addresses], separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> Peer:
        """Read a report that :meth:`to_text` wrote."""
        name, port, *addresses = json.loads(text)
        return cls(name, port, tuple(addresses))


def this_peer(port: int) -> Peer:
    """Report about this machine. The address that its host name resolves to comes first."""
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
    """Choose the host part of each task's address, with the same result on every machine.

    Hosts are IP addresses of a network in which all machines have an address. If there is no such network,
    they are the host names of the machines.

    Parameters
    ----------
    peers : sequence of Peer
        The reports of all tasks.
    one_machine : bool
        Whether all tasks are known to be on one machine.
    """
    machines = {peer.name: peer for peer in peers}
    if one_machine or len(machines) == 1:
        return ["127.0.0.1"] * len(peers)
    # Bridges of containers and virtual machines have the same address on every machine.
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

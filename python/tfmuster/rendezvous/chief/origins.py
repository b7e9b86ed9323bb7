"""Tell the tasks where the others come from, for the filters of TensorFlow's ports (:mod:`.port_guard`)."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ...net.addresses import split_address
from ...net.channel import Message
from ...net.connections import Connection
from .roster import Participant

#: More addresses do not fit into a message. The tasks look up the others by name.
_MOST_PEERS: Final = 1000

#: What the chief's task says when TensorFlow listens there, and the chief tells all.
LISTENING: Final[Message] = {"type": "listening"}

Clients = Sequence[tuple[Participant, Connection]]


def origins(clients: Clients) -> Message:
    """Return ``peers``, the addresses from which the tasks came, and ``direct``.

    It is False if a task knows itself by another address: a gateway lies between, and translates ports too.
    """
    direct = all(participant.origin == connection.host for participant, connection in clients)
    seen = {connection.host for _, connection in clients} - {""}
    return {"peers": sorted(seen)[:_MOST_PEERS], "direct": direct}


def pass_on(knock: Message, clients: Clients, addresses: Mapping[str, str], chief: str) -> None:
    """Tell the tasks with this port that a connection to it comes; the chief, if no task has this port.

    Raises
    ------
    ValueError
        The message is malformed.
    """
    message = {"type": "knock", "from": read_end(knock["from"])}
    port = read_end(knock["to"])[1]
    names = {name for name, address in addresses.items() if split_address(address)[1] == port} or {chief}
    for participant, connection in clients:
        if participant.name in names:
            connection.send(message)


def read_end(value: Any) -> tuple[str, int]:
    """Return an IP address and a port of a message. Raises ValueError if it is malformed."""
    host, port = value
    if not isinstance(port, int) or not 0 < port < 65536:
        raise ValueError("not a port")
    return str(ipaddress.ip_address(str(host))), port

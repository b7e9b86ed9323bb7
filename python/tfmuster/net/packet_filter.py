"""Filter the packets that reach a TCP socket of this process, by a classic BPF program (Linux).

Older kernels let every process do this. Newer ones, such as 6.18.44, want CAP_NET_ADMIN for TCP sockets:
see :mod:`.gated_door`.

The program is attached to a listening socket. Accepted sockets inherit it; it can be detached from each of
them. It sees the TCP header at offset 0 and the IP header at `SKF_NET_OFF`
(https://docs.kernel.org/networking/filter.html).
"""

from __future__ import annotations

import contextlib
import ctypes
import ipaddress
import socket
import struct
from collections.abc import Iterable
from dataclasses import dataclass

from .addresses import plain_address

_SO_ATTACH_FILTER = 26
_SO_DETACH_FILTER = 27

#: Offset of the IP header for a program.
_NET = 0xFFF00000
#: Longest program that the kernel takes (BPF_MAXINSNS).
_MOST_INSTRUCTIONS = 4096
#: With more addresses than this, whole networks are admitted: /24, and /64 of IPv6.
_MOST_ADDRESSES = 256

_LD_WORD, _LD_HALF, _LD_BYTE, _LD_LENGTH = 0x20, 0x28, 0x30, 0x80
_AND, _SHIFT_RIGHT, _TO_X = 0x54, 0x74, 0x07
_JUMP, _JUMP_EQUAL, _JUMP_EQUAL_X = 0x05, 0x15, 0x1D
_RETURN = 0x06
_WHOLE = 0xFFFFFFFF

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_Instruction = tuple[int, int, int, int]


@dataclass(frozen=True)
class Rule:
    """Packets that are let through: from a network, and from a port unless it is None."""

    network: Network
    port: int | None = None
    #: False lets through only packets without data, so that a connection can be made, but carries nothing.
    payload: bool = True


def networks(addresses: Iterable[str]) -> list[Network]:
    """Return IP addresses as networks that a program has room for. What is no IP address is left out."""
    exact: set[Network] = set()
    for address in addresses:
        with contextlib.suppress(ValueError):
            exact.add(ipaddress.ip_network(plain_address(address)))
    if len(exact) > _MOST_ADDRESSES:
        exact = {host.supernet(new_prefix=24 if host.version == 4 else 64) for host in exact}
    return sorted(exact, key=str)


def program(rules: Iterable[Rule]) -> bytes:
    """Return the program that drops all that no rule names. Raises ValueError for too many rules."""
    rules = list(rules)
    four = [step for rule in rules if rule.network.version == 4 for step in _checks(rule)]
    six = [step for rule in rules if rule.network.version == 6 for step in _checks(rule)]
    steps: list[_Instruction] = [
        (_LD_BYTE, 0, 0, _NET),
        (_AND, 0, 0, 0xF0),
        (_JUMP_EQUAL, 1, 0, 0x40),
        (_JUMP, 0, 0, len(four) + 1),
        *four,
        (_RETURN, 0, 0, 0),
        *six,
        (_RETURN, 0, 0, 0),
    ]
    if len(steps) > _MOST_INSTRUCTIONS:
        raise ValueError(f"a filter of {len(steps)} instructions is longer than {_MOST_INSTRUCTIONS}")
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def attach(listener: socket.socket, code: bytes) -> None:
    """Attach a program to a socket, in place of an earlier one. Raises OSError where that is not possible."""
    kept = ctypes.create_string_buffer(code, len(code))
    listener.setsockopt(
        socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("@HP", len(code) // 8, ctypes.addressof(kept))
    )


def detach(accepted: socket.socket) -> None:
    """Detach the program from a socket. Raises OSError."""
    accepted.setsockopt(socket.SOL_SOCKET, _SO_DETACH_FILTER, 0)


def _checks(rule: Rule) -> list[_Instruction]:
    """Return the steps that end the program if the rule fits, and fall through if it does not."""
    tests: list[list[_Instruction]] = []  # each ends in a jump whose second target is the end of the rule
    address, mask = rule.network.network_address.packed, rule.network.netmask.packed
    start = _NET + (12 if rule.network.version == 4 else 8)
    for at in range(0, len(address), 4):
        wanted, bits = (int.from_bytes(part[at : at + 4], "big") for part in (address, mask))
        if bits:
            masking = [] if bits == _WHOLE else [(_AND, 0, 0, bits)]
            tests.append([(_LD_WORD, 0, 0, start + at), *masking, (_JUMP_EQUAL, 0, 0, wanted)])
    if rule.port is not None:
        tests.append([(_LD_HALF, 0, 0, 0), (_JUMP_EQUAL, 0, 0, rule.port)])
    if not rule.payload:
        # The length of the TCP header, in units of four bytes, is in the upper half of its byte 12.
        length = [(_LD_BYTE, 0, 0, 12), (_AND, 0, 0, 0xF0), (_SHIFT_RIGHT, 0, 0, 2), (_TO_X, 0, 0, 0)]
        tests.append([*length, (_LD_LENGTH, 0, 0, 0), (_JUMP_EQUAL_X, 0, 0, 0)])
    steps: list[_Instruction] = []
    left = sum(len(test) for test in tests) + 1
    for test in tests:
        left -= len(test)
        code, _, _, value = test[-1]
        steps += [*test[:-1], (code, 0, left, value)]
    return [*steps, (_RETURN, 0, 0, _WHOLE)]

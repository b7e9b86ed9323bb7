"""Machines of a small network: network namespaces on a bridge. Needs root."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True, timeout=10)


@dataclass
class Machine:
    """A network namespace with an address on the bridge, which is in a namespace of its own."""

    name: str
    address: str
    switch: str = ""

    @property
    def prefix(self) -> tuple[str, ...]:
        """What to put in front of a command, so that it runs there."""
        return ("ip", "netns", "exec", self.name)

    def let_nobody_in_from(self, other: Machine, port: int) -> None:
        """Drop, without a word, what `other` sends to the port here; its answers to calls from here pass."""
        ip("-n", self.name, "rule", "add", "pref", "100", "lookup", "local")
        ip("-n", self.name, "rule", "del", "pref", "0")
        rule = f"rule add pref 10 from {other.address} ipproto tcp dport {port} blackhole"
        ip("-n", self.name, *rule.split())


@contextlib.contextmanager
def machines(count: int) -> Iterator[list[Machine]]:
    """Make machines that reach each other, and remove them at the end."""
    tag = f"tfm{os.getpid()}"
    switch = f"{tag}sw"
    made = [Machine(f"{tag}h{i}", f"10.77.0.{i + 1}", switch) for i in range(count)]
    try:
        ip("netns", "add", switch)
        ip("-n", switch, "link", "add", "br0", "type", "bridge")
        ip("-n", switch, "link", "set", "br0", "up")
        for i, machine in enumerate(made):
            ip("netns", "add", machine.name)
            cable = f"link add p{i} type veth peer name eth0 netns {machine.name}"
            ip("-n", switch, *cable.split())
            ip("-n", switch, "link", "set", f"p{i}", "master", "br0", "up")
            ip("-n", machine.name, "addr", "add", f"{machine.address}/24", "dev", "eth0")
            ip("-n", machine.name, "link", "set", "eth0", "up")
            ip("-n", machine.name, "link", "set", "lo", "up")
        yield made
    finally:
        for name in [machine.name for machine in made] + [switch]:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False, timeout=10)

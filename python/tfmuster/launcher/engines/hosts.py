"""Read hosts in the notations of Horovod and MPI, and assign tasks to them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ...errors import LaunchError
from ...net.addresses import address_problems, is_loopback
from ...options.hints import Hint
from ...words import Code, Words

# ssh would read a leading "-" as an option, and its configuration may pass both names to a shell.
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*", re.ASCII)
_SLOTS = re.compile(r"[1-9][0-9]{0,3}", re.ASCII)
#: Slots of a host: four for each core of the largest machine that a cloud rents.
_MOST_SLOTS = 1024
_HOST = re.compile(r"(\[[^\]]*\]|[^:]*)(?::(.*))?", re.DOTALL)
_SHOWN = 60
_HOSTS = Hint("hosts")
_EXAMPLE = Hint("hosts", "node1:2,node2:2")


@dataclass(frozen=True)
class Host:
    """A machine, and the number of tasks that it takes."""

    #: A DNS name, an IPv4 address or an ``[IPv6]`` address.
    name: str
    slots: int = 1
    #: Default: the user that ssh chooses.
    user: str | None = None

    @property
    def target(self) -> str:
        """Destination argument for ssh."""
        name = self.name.strip("[]")
        return f"{self.user}@{name}" if self.user else name

    def __str__(self) -> str:
        """Return the host as :func:`parse_hosts` reads it."""
        user = f"{self.user}@" if self.user else ""
        return f"{user}{self.name}:{self.slots}"


def parse_hosts(text: str) -> tuple[Host, ...]:
    """Parse ``node1:2,me@node2:4,node3``. A host that is named twice gets the slots of both."""
    entries = [(f"{_HOSTS}, entry {number}", entry) for number, entry in enumerate(text.split(","), 1)]
    return _hosts((where, *_split(entry.strip(" "))) for where, entry in entries)


def read_hostfile(path: str | os.PathLike[str]) -> tuple[Host, ...]:
    """Read a host file with lines such as ``node1 slots=2`` (MPI), ``node1:2`` (Horovod) or ``node1``."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise LaunchError(
            f"The host file {path} can't be read.",
            found=why,
            fix=Words("Write a line such as node1:2 for each host there, or name them: {}.", _EXAMPLE),
            reason="hosts",
        ) from error
    entries = []
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        name, slots = _split(words[0])
        for word in words[1:]:
            key, _, value = word.partition("=")
            if key == "slots":
                slots = value
            elif key.replace("-", "_") != "max_slots":
                name = " ".join(words)
        entries.append((f"{path}, line {number}", name, slots))
    return _hosts(entries)


def parse_discovered(lines: Iterable[str]) -> tuple[Host, ...]:
    """Parse the lines ``host:slots`` of a discovery script (Horovod). There may be none."""
    entries = [
        (f"line {number}", *_split(line.strip())) for number, line in enumerate(lines, 1) if line.strip()
    ]
    return _hosts(entries, twice=False) if entries else ()


def named_hosts(hosts: str | None, hostfile: str | os.PathLike[str] | None) -> tuple[Host, ...]:
    """Return the hosts of ``-H`` or ``--hostfile``; an empty tuple if neither is given."""
    if hosts is not None and hostfile is not None:
        raise LaunchError(
            Words("Give the hosts by {} or by --hostfile.", _HOSTS),
            found="both",
            fix="Leave one out.",
            reason="hosts",
        )
    if hostfile is not None:
        return read_hostfile(hostfile)
    return () if hosts is None else parse_hosts(hosts)


def place_tasks(sizes: Mapping[str, int], hosts: Sequence[Host]) -> list[tuple[str, int, Host]]:
    """Return type, index and host of every task, filling one host after the other."""
    tasks = [(kind, index) for kind, size in sizes.items() for index in range(size)]
    slots = [host for host in hosts for _ in range(host.slots)]
    if len(tasks) > len(slots):
        others = sum(sizes.values()) - sizes.get("worker", 0)
        fitting = max(1, len(slots) - others)
        raise LaunchError(
            "The hosts must have a slot for every task.",
            found=f"{len(tasks)} tasks, {len(slots)} slots on {', '.join(host.name for host in hosts)}",
            fix=Words(
                "Give the hosts more slots ({}), or start fewer workers ({}).",
                _EXAMPLE,
                Hint("workers", fitting),
            ),
            reason="slots",
        )
    return [(kind, index, host) for (kind, index), host in zip(tasks, slots, strict=False)]


def only_this_machine(hosts: Sequence[Host]) -> bool:
    """Return whether all hosts are this machine's loopback names. Raises LaunchError if only some are."""
    local = [host.name for host in hosts if is_loopback(f"{host.name}:1")]
    if local and len(local) < len(hosts):
        raise LaunchError(
            "Every host must have a name by which the others reach it.",
            found=f"{', '.join(local)} together with other hosts",
            fix="Give this machine's name or address on the network.",
            reason="hosts",
        )
    return bool(local)


def _split(entry: str) -> tuple[str, str]:
    match = _HOST.fullmatch(entry.rpartition("@")[2])
    if match is None:
        return entry, "1"
    user = entry[: entry.rfind("@") + 1]
    return user + match[1], "1" if match[2] is None else match[2]


def _hosts(entries: Iterable[tuple[str, str, str]], *, twice: bool = True) -> tuple[Host, ...]:
    hosts: dict[str, Host] = {}
    problems = []
    for where, text, slots in entries:
        user, at, name = text.rpartition("@")
        if name.startswith("-") or any(address_problems(f"{name}:1")):
            problems.append(f"{where}: {_shown(text)} is not a host name")
        elif at and not _USER.fullmatch(user):
            problems.append(f"{where}: {_shown(user)} is not a user name")
        elif not _SLOTS.fullmatch(slots) or int(slots) > _MOST_SLOTS:
            port = "; a port belongs into ~/.ssh/config" if slots.isdigit() and int(slots) else ""
            problems.append(f"{where}: {_shown(slots)} is not a number of slots (1 to {_MOST_SLOTS}){port}")
        elif name in hosts and not twice:
            problems.append(f"{where}: {_shown(name)} is named twice")
        elif name in hosts:
            hosts[name] = replace(hosts[name], slots=hosts[name].slots + int(slots))
        else:
            hosts[name] = Host(name, int(slots), user or None)
    if problems or not hosts:
        raise LaunchError(
            "The hosts can't be used.",
            found="\n         ".join(problems) or "none",
            fix=Words(
                "Write them as node1:2,node2:2 (name:slots){}.",
                Code("", "", ", or one per line in --hostfile"),
            ),
            reason="hosts",
        )
    return tuple(hosts.values())


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")

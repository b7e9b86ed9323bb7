"""Connect an agent that an engine started to its launcher.

    python -m tfmuster.launcher.remote.agents.call_home --home HOST:PORT,... --rank 3 --seconds 60

The environment has the job's token (``TFMUSTER_TOKEN``). It is on no command line, and no connection sends
it: both ends prove that they know it. With several addresses, the first counts at which a process that knows
the token answers.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import psutil

from ....environment import TOKEN_VARIABLE
from ....errors import LaunchError, TfmusterError
from ....net.addresses import is_loopback, split_address
from ....net.channel import Channel, ChannelError
from ....net.ports import connect_problem
from ....system.gpus import VISIBLE
from ..agent_connection import Way, agent_channel
from ..files import PIECE
from .agent import Agent

#: Label from which the connection's key is derived.
KEY_PURPOSE = b"agent"
_CONNECT_SECONDS = 3.0
_PAUSE_SECONDS = 0.3
#: How much longer an agent waits for the launcher than the launcher waits for agents, in seconds.
_GIVING_UP_SECONDS = 10.0


def call_home(
    launcher_addresses: Sequence[str], token: str, about: Mapping[str, object], seconds: float
) -> Way:
    """Connect to the launcher, and wait until all other agents have. Raises LaunchError if that fails."""
    end = time.monotonic() + seconds
    parent = os.getppid()
    problems: dict[str, str] = {}
    refused: dict[str, str] = {}
    while True:
        for address in launcher_addresses:
            try:
                connection = socket.create_connection(split_address(address), timeout=_CONNECT_SECONDS)
            except OSError as error:
                problems[address] = connect_problem(error)
                continue
            try:
                return _introduce(connection, token, about, end)
            except ChannelError as error:
                # At the end of its time limit, the launcher closes the connection.
                refused.setdefault(address, _WIRE_PROBLEMS.get(error.reason, "something else answers there"))
            except OSError as error:
                problems[address] = connect_problem(error)
            connection.close()
        if time.monotonic() + _PAUSE_SECONDS > end or os.getppid() != parent:
            break
        time.sleep(_PAUSE_SECONDS)
    raise LaunchError(
        "The launcher must be reachable from the hosts of its workers.",
        found="; ".join(f"{address}: {why}" for address, why in (problems | refused).items()),
        fix="Allow connections from here in its firewall, or launch from a machine that can be reached.",
        reason="home",
    )


_WIRE_PROBLEMS = {
    "wrong-token": "it knows another token",
    "hung-up": "it closed the connection",
}


def _introduce(connection: socket.socket, token: str, about: Mapping[str, object], end: float) -> Way:
    """Authenticate both ends: challenge, answer, welcome."""
    channel = Channel(caller=True, token=token)
    _next_message(connection, channel)
    name = connection.getsockname()[0].removeprefix("::ffff:")
    address = f"[{name}]" if ":" in name else name
    connection.sendall(channel.encode({"type": "here", "address": address, **about}))
    # The launcher normally closes the connection before this limit. The limit is for a machine that has gone
    # without closing it.
    connection.settimeout(max(0.0, end - time.monotonic()) + _GIVING_UP_SECONDS)
    if _next_message(connection, channel)["type"] != "welcome":
        raise ChannelError("hung-up")
    connection.settimeout(None)
    # Detached, because the connection lasts as long as this process.
    number = connection.detach()
    return Way(number, number, agent_channel(caller=True, key=channel.key(KEY_PURPOSE)))


def _next_message(connection: socket.socket, channel: Channel) -> dict[str, Any]:
    """Read the next message. The other end sends nothing more before it has the answer."""
    while True:
        data = connection.recv(PIECE)
        if not data:
            raise ChannelError("hung-up")
        for message in channel.decode(data):
            return message


def host_names() -> list[str]:
    """Return the names by which others may reach this host: its name, then its interfaces' addresses."""
    names = [socket.gethostname()]
    for addresses in psutil.net_if_addrs().values():
        for family, address, *_ in addresses:
            # Other machines can't use a link-local address (fe80::1%eth0).
            if family == socket.AF_INET and not is_loopback(f"{address}:1"):
                names.append(address)
            elif family == socket.AF_INET6 and not address.startswith(("::1", "fe80")):
                names.append(f"[{address}]")
    return list(dict.fromkeys(names))


def main() -> None:
    """Connect to the launcher, and serve as an agent."""
    parser = argparse.ArgumentParser(prog="tfmuster.launcher.remote.agents.call_home")
    parser.add_argument("--home", required=True, help="addresses of the launcher (HOST:PORT,...)")
    parser.add_argument("--rank", type=int, help="rank of this agent, from 0")
    parser.add_argument("--rank-from", default="", metavar="NAME,...", help="variables with the rank")
    parser.add_argument("--seconds", type=float, required=True, help="time limit for the connection")
    parser.add_argument("--gpus", metavar="ID,...", help="GPUs that only this agent may use")
    parser.add_argument("--address", action="append", default=[], help="the engine's address of this host")
    parser.add_argument("--try", action="store_true", dest="only_try", help="exit: check the import only")
    options = parser.parse_args()
    if options.only_try:
        return
    ranks = [os.environ[name] for name in options.rank_from.split(",") if name in os.environ]
    rank = options.rank if options.rank is not None else int(ranks[0]) if ranks else None
    token = os.environ.pop(TOKEN_VARIABLE, None)
    if rank is None or not token:
        parser.error("the engine must give the rank, and the token in the environment")
    if options.gpus is not None:
        os.environ[VISIBLE] = options.gpus
    about = {
        "rank": rank,
        "host": socket.gethostname(),
        "names": [*options.address, *host_names()],
        "own_gpus": options.gpus is not None,
    }
    try:
        way = call_home(options.home.split(","), token, about, options.seconds)
    except TfmusterError as error:
        print(f"tfmuster: {socket.gethostname()}: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    with contextlib.suppress(OSError):
        # The engine shows the output of this process, which reads no input.
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    Agent(way, {TOKEN_VARIABLE: token}).run()


if __name__ == "__main__":
    main()

"""How an agent that an engine has started calls its launcher.

    python -m tfmuster.launch.remote.call_home --home HOST:PORT,... --rank 3 --seconds 60

The environment has the job's token (``TFMUSTER_TOKEN``), which is on no command line and goes over no
connection: both ends prove that they know it. Of several addresses the first counts where somebody who knows
it answers.
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

from ...environment import TOKEN_VARIABLE
from ...errors import LaunchError, TfmusterError
from ...net.addresses import is_loopback, split_address
from ...net.channel import Channel, ChannelError
from ...net.ports import connect_problem
from ...system.gpus import VISIBLE
from .agent import Agent
from .agent_connection import Way, agent_channel
from .files import PIECE

#: What the connection's seals are made with.
KEY_PURPOSE = b"agent"
_CONNECT_SECONDS = 3.0
_PAUSE_SECONDS = 0.3
#: How much longer than the launcher itself an agent waits for the launcher's word, seconds.
_GIVING_UP_SECONDS = 10.0


def call_home(launcher_addresses: Sequence[str], token: str, about: Mapping[str, Any], seconds: float) -> Way:
    """Connect to the launcher, introduce this agent, and wait until all others have.

    Parameters
    ----------
    launcher_addresses : sequence of str
        Addresses that may be the launcher's.
    token : str
        The job's secret.
    about : mapping
        What to say of this agent.
    seconds : float
        For how long to try.

    Raises
    ------
    LaunchError
        It can't be reached, or does not want this agent.
    """
    end = time.monotonic() + seconds
    parent = os.getppid()
    problems: dict[str, str] = {}
    refused: dict[str, str] = {}
    while True:
        for address in launcher_addresses:
            try:
                made = socket.create_connection(split_address(address), timeout=_CONNECT_SECONDS)
            except OSError as error:
                problems[address] = connect_problem(error)
                continue
            try:
                return _introduce(made, token, about, end)
            except ChannelError as error:
                # At the end it may just have hung up.
                refused.setdefault(address, _WIRE_PROBLEMS.get(error.reason, "something else answers there"))
            except OSError as error:
                problems[address] = connect_problem(error)
            made.close()
        if time.monotonic() + _PAUSE_SECONDS > end or os.getppid() != parent:
            break
        time.sleep(_PAUSE_SECONDS)
    raise LaunchError(
        "The launcher must be reachable from the hosts of its workers.",
        found="; ".join(f"{address}: {why}" for address, why in (problems | refused).items()),
        fix="Let its firewall pass connections from here, or launch from a machine that can be reached.",
        reason="home",
    )


_WIRE_PROBLEMS = {
    "wrong-token": "it knows another token",
    "hung-up": "it hung up",
}


def _introduce(made: socket.socket, token: str, about: Mapping[str, Any], end: float) -> Way:
    """Challenge, answer, welcome."""
    channel = Channel(caller=True, token=token)
    _hear(made, channel)
    own = made.getsockname()[0].removeprefix("::ffff:")
    address = f"[{own}]" if ":" in own else own
    made.sendall(channel.encode({"type": "here", "address": address, **about}))
    # The launcher hangs up when it gives up, which is to be before this; it is for a machine that is gone
    # without a word.
    made.settimeout(max(0.0, end - time.monotonic()) + _GIVING_UP_SECONDS)
    if _hear(made, channel)["type"] != "welcome":
        raise ChannelError("hung-up")
    made.settimeout(None)
    # Detached, as it lives as long as this process.
    number = made.detach()
    return Way(number, number, agent_channel(caller=True, key=channel.key(KEY_PURPOSE)))


def _hear(made: socket.socket, channel: Channel) -> dict[str, Any]:
    """The next message. The other end waits for an answer to it, so nothing comes behind it."""
    while True:
        data = made.recv(PIECE)
        if not data:
            raise ChannelError("hung-up")
        for message in channel.decode(data):
            return message


def host_names() -> list[str]:
    """By what others may know this host: its name, then the addresses of its interfaces."""
    names = [socket.gethostname()]
    for addresses in psutil.net_if_addrs().values():
        for each in addresses:
            # An address of one cable alone (fe80::1%eth0) is no use to others.
            if each.family == socket.AF_INET and not is_loopback(f"{each.address}:1"):
                names.append(each.address)
            elif each.family == socket.AF_INET6 and not each.address.startswith(("::1", "fe80")):
                names.append(f"[{each.address}]")
    return list(dict.fromkeys(names))


def main() -> None:
    """Call home, and be an agent."""
    parser = argparse.ArgumentParser(prog="tfmuster.launch.remote.call_home")
    parser.add_argument("--home", required=True, help="HOST:PORT,... of the launcher")
    parser.add_argument("--rank", type=int, help="which of the agents this is, from 0 on")
    parser.add_argument("--rank-from", default="", metavar="NAME,...", help="variables that may say it")
    parser.add_argument("--seconds", type=float, required=True, help="for how long to try")
    parser.add_argument("--gpus", metavar="ID,...", help="GPUs that are this agent's alone")
    parser.add_argument("--address", action="append", default=[], help="by which the engine knows this host")
    parser.add_argument("--try", action="store_true", dest="only_try", help="end at once: all is installed")
    given = parser.parse_args()
    if given.only_try:
        return
    ranks = [os.environ[name] for name in given.rank_from.split(",") if name in os.environ]
    rank = given.rank if given.rank is not None else int(ranks[0]) if ranks else None
    token = os.environ.pop(TOKEN_VARIABLE, None)
    if rank is None or not token:
        parser.error("an engine has to say the rank, and to give the token in the environment")
    if given.gpus is not None:
        os.environ[VISIBLE] = given.gpus
    about = {
        "rank": rank,
        "host": socket.gethostname(),
        "names": [*given.address, *host_names()],
        "own_gpus": given.gpus is not None,
    }
    try:
        way = call_home(given.home.split(","), token, about, given.seconds)
    except TfmusterError as error:
        print(f"tfmuster: {socket.gethostname()}: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    with contextlib.suppress(OSError):
        # What is printed here is the engine's to show, and none of it waits for input.
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    Agent(way, {TOKEN_VARIABLE: token}).run()


if __name__ == "__main__":
    main()

"""Find the names of a job's hosts that can be looked up on this host."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, wait

from ...net.addresses import host_key

_LOOK_UP_SECONDS = 5.0


def known_names(names: Mapping[str, list[str]], own: str) -> dict[str, list[str]]:
    """Return each host's names that this host can look up and that don't lead back to this host."""
    pool = ThreadPoolExecutor(max_workers=16)
    asked = {
        (host, name): pool.submit(_known, name, host == own)
        for host, known in names.items()
        for name in known
    }
    answered, _ = wait(asked.values(), timeout=_LOOK_UP_SECONDS)
    pool.shutdown(wait=False, cancel_futures=True)
    return {
        host: [name for name in known if (answer := asked[host, name]) in answered and answer.result()]
        for host, known in names.items()
    }


def _known(name: str, itself: bool) -> bool:
    try:
        found = socket.getaddrinfo(name.strip("[]"), None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False
    # Debian gives a machine's own name a loopback address; another host's name must not have one.
    return itself or all(host_key(str(address[4][0])) != "localhost" for address in found)

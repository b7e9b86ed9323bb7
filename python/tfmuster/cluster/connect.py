"""Try to reach all addresses of a cluster in parallel, within a bounded time."""

from __future__ import annotations

import queue
import socket
import threading
import time
from typing import TYPE_CHECKING

from ..net.addresses import split_address
from .findings import KINDS

if TYPE_CHECKING:
    from .findings import Findings
    from .spec import Cluster

_THREADS = 64


def try_addresses(cluster: Cluster, found: Findings, *, timeout: float = 3.0) -> None:
    """Note each address that can't be reached from here.

    A refused connection is only a warning: the machine answers, and its task has not started yet.

    Parameters
    ----------
    cluster : Cluster
        The cluster to try.
    found : Findings
        The list to which findings are added.
    timeout : float
        Time limit for each address, in seconds. Up to 64 are tried at a time.
    """
    todo: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
    results: dict[str, tuple[str, str] | None] = {}
    places = {
        f"cluster.{job}[{i}]": address for job, all_ in cluster.jobs.items() for i, address in enumerate(all_)
    }
    for item in places.items():
        todo.put(item)

    def work() -> None:
        while True:
            try:
                place, address = todo.get_nowait()
            except queue.Empty:
                return
            results[place] = _problem(address, timeout)

    # Daemon threads, because resolving a name can't be interrupted: a dead DNS server must not block the
    # exit.
    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(_THREADS, len(places)))]
    for thread in threads:
        thread.start()
    rounds = -(-len(places) // len(threads))
    deadline = time.monotonic() + timeout * rounds + 2.0
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    for place, address in places.items():
        problem = results.get(place, ("not-reachable", "no answer in time"))
        if problem:
            code, reason = problem
            found.note(code, place, address, message=f"{KINDS[code].meaning}: {reason}")


def _problem(address: str, timeout: float) -> tuple[str, str] | None:
    try:
        socket.create_connection(split_address(address), timeout).close()
    except ConnectionRefusedError as error:
        return "nothing-listens", error.strerror or "refused"
    except socket.gaierror as error:
        return "name-not-found", error.strerror or "unknown name"
    except TimeoutError:
        return "not-reachable", f"no answer within {timeout:g} s"
    except OSError as error:
        return "not-reachable", error.strerror or str(error)
    return None

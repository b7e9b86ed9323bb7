"""A lost connection as a failure, and this process as failures describe it."""

from __future__ import annotations

import os
import socket
from typing import Any

from ..net.connections import SILENT_SECONDS

Failure = dict[str, Any]


def disappeared(why: str) -> dict[str, Any]:
    """A connection that ended, by the reason in `Connection.why`, as a failure of the process or machine
    behind it.

    A machine that is cut off was so for some time before anybody could know, and that counts: other failures
    may have followed from it meanwhile.
    """
    if why in ("hung up", "connection reset by peer"):
        message, age = "its process ended or was killed", 0.0
    else:
        message, age = "its machine is down or cut off from the network", float(SILENT_SECONDS)
    return {"kind": "disappeared", "message": f"disappeared: {message}", "age": age}


def failure_text(failure: Failure) -> str:
    """A failure in one line: ``worker 1 (host b, pid 12) failed: ValueError: no such layer``."""
    verb = "" if failure["kind"] == "disappeared" else "failed: "
    return f"{failure['task']} (host {failure['host']}, pid {failure['pid']}) {verb}{failure['message']}"


def this_process() -> dict[str, Any]:
    """Host name and process id, as they appear in every report."""
    return {"host": socket.gethostname(), "pid": os.getpid()}

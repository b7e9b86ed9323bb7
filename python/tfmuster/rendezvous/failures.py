"""Describe a lost connection as a failure, and this process as failures name it."""

from __future__ import annotations

import os
import re
import socket
import time
import traceback
from collections.abc import Mapping
from typing import Any, Final

from ..errors import TfmusterError
from ..net.channel import Message
from ..net.sockets import SILENT_SECONDS
from ..system.terminal_text import bounded_text

#: Kind of a failure of a task that the others wait for. The task itself may be unable to report it.
STALLED: Final = "stalled"
_REPORTED = re.compile(r"tfmuster: (?:chief|worker|ps|evaluator) \d+ \(host .+, pid \d+\) failed: ")


def disappeared(why: str) -> dict[str, Any]:
    """Describe a connection that ended as a failure of the other side, by the reason in `Connection.why`.

    The others notice a lost machine only after `SILENT_SECONDS`, and its failure may have caused others
    meanwhile. So its age counts from the loss.
    """
    if why in ("hung up", "connection reset by peer"):
        message, age = "its process ended or was killed", 0.0
    else:
        message, age = "its machine is down or cut off from the network", float(SILENT_SECONDS)
    return {"kind": "disappeared", "message": f"disappeared: {message}", "age": age}


def failure_text(failure: Message) -> str:
    """Say a failure in one line: ``worker 1 (host b, pid 12) failed: ValueError: no such layer``."""
    verb = "" if failure["kind"] in ("disappeared", STALLED) else "failed: "
    return f"{failure['task']} (host {failure['host']}, pid {failure['pid']}) {verb}{failure['message']}"


def repeats_failure(line: str) -> bool:
    """Whether a worker has written, with `failure_text`, what failed elsewhere: its launcher says it, too."""
    return bool(_REPORTED.match(line))


def this_process() -> dict[str, Any]:
    """Return host name and process id, as they appear in every report."""
    return {"host": socket.gethostname(), "pid": os.getpid()}


def earliest(known: Message | None, process: Mapping[str, Any], report: Mapping[str, Any]) -> Message:
    """Return the earlier failure: the one that is known, or the one that a task reports now."""
    moment = time.time() - min(max(0.0, float(report["age"])), 3600.0)
    if known is not None and moment >= known["time"]:
        return known
    return {
        "type": "failure",
        **process,
        "kind": bounded_text(report["kind"], 40),
        "message": str(report["message"])[:4000],
        "traceback": str(report.get("traceback") or "")[-16_000:],
        "time": moment,
    }


def exception_fields(error: BaseException) -> dict[str, str]:
    """Return an exception as the fields of a failure: ``kind``, ``message``, ``traceback``."""
    only = "".join(traceback.format_exception_only(type(error), error))
    text = error.message if isinstance(error, TfmusterError) else only.strip()
    trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return {"kind": "exception", "message": text, "traceback": trace}

"""Whether the launcher of a run still lives, on this machine or on another that shares the folder."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any, Final

from .layout import UNFINISHED

#: How often a launcher writes the status of a job that runs, even if nothing has changed, in seconds.
BEAT_SECONDS: Final = 30.0
#: After this time without a new status, a run on another machine is lost, in seconds. The clocks of machines
#: may differ, and a shared file system may show a file late.
_LOST_SECONDS: Final = 300.0


def is_lost(info: Mapping[str, Any], status: Mapping[str, Any]) -> bool:
    """Return whether a run has not ended, but its launcher has.

    Parameters
    ----------
    info, status : mapping
        The contents of ``run.json`` and ``status.json``.
    """
    if status["state"] not in UNFINISHED:
        return False
    if info.get("host", socket.gethostname()) == socket.gethostname():
        return launcher_process(info) is None
    # A run that has not begun may wait for a batch system.
    if status["state"] != "running":
        return False
    try:
        written = datetime.fromisoformat(status["updated"])
        return (datetime.now(timezone.utc) - written).total_seconds() > _LOST_SECONDS
    except (KeyError, TypeError, ValueError):
        return False


def launcher_process(info: Mapping[str, Any]) -> Any:
    """Return the launcher as a psutil.Process; None if it has ended or runs on another machine."""
    import psutil

    from ..system.processes import birth

    if info.get("host") != socket.gethostname():
        return None
    with contextlib.suppress(psutil.Error, KeyError):
        process = psutil.Process(info["pid"])
        # Another process may have got this number since.
        if birth(process) == info["pid_birth"] and process.status() != psutil.STATUS_ZOMBIE:
            return process
    return None

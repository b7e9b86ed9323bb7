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
#: The same while a launcher prepares its workers, in addition to the time that they have to start. It writes
#: nothing while it waits for hosts and sends them files.
_LOST_START_SECONDS: Final = 3600.0


def is_lost(info: Mapping[str, Any] | None, status: Mapping[str, Any]) -> bool:
    """Return whether a run has not ended, but its launcher has.

    Parameters
    ----------
    info, status : mapping
        The contents of ``run.json``, which is None for other users than the run's own, and ``status.json``.
    """
    if status["state"] not in UNFINISHED:
        return False
    here = socket.gethostname()
    if info is not None and info.get("host", here) == here:
        return launcher_process(info) is None
    # A run that waits for a batch system has no launcher yet, on any machine.
    if info is not None and not info["host"]:
        return False
    try:
        written = datetime.fromisoformat(status["updated"])
        limit = _LOST_SECONDS
        if status["state"] != "running":
            limit = _LOST_START_SECONDS + float((info or {}).get("start_timeout", 0))
        return (datetime.now(timezone.utc) - written).total_seconds() > limit
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

"""Read the state of a run and of its tasks, find whether its launcher still lives, and wait for its end."""

from __future__ import annotations

import contextlib
import math
import os
import socket
import time
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..record.layout import UNFINISHED
from ..record.recording import Documents, read_info, read_status
from .states import read_states

if TYPE_CHECKING:
    import psutil

#: How often a launcher writes the status of a job that runs, even if nothing has changed, in seconds.
BEAT_SECONDS: Final = 30.0
#: After this time without a new status, a run on another machine is lost, in seconds. The clocks of machines
#: may differ, and a shared file system may show a file late.
_LOST_SECONDS: Final = 300.0
#: The same while a launcher prepares its workers, in addition to the time that they have to start. It writes
#: nothing while it waits for hosts and sends them files.
_LOST_START_SECONDS: Final = 3600.0


def status_of(run_dir: Path, documents: Documents | None = None) -> dict[str, Any]:
    """Return the state of a run; see :meth:`.run.Run.status`. `documents` are those that were read."""
    documents = documents or Documents(run_dir)
    status = {"state": "starting", "restarts": 0, "tasks": {}, **documents.status()}
    if status["state"] not in UNFINISHED:
        return status
    if _is_lost(read_info(run_dir) if _is_readable(run_dir) else None, status):
        # The run may have ended since the first look.
        status.update(read_status(run_dir))
        if status["state"] in UNFINISHED:
            status["state"] = "lost"
    if status["state"] == "running":
        for task, state in read_states(run_dir).items():
            if status["tasks"].get(task, {}).get("state") == "running":
                status["tasks"][task] |= {"doing": state.text, "progress": state.to_dict()}
    return status


def _is_readable(run_dir: Path) -> bool:
    """Return whether this user may know where the launcher is; of another user's run, it may not."""
    path = run_dir / "run.json"
    effective = os.access in os.supports_effective_ids
    return not path.exists() or os.access(path, os.R_OK, effective_ids=effective)


def wait_for_end(run_dir: Path, timeout: float | None = None) -> dict[str, Any]:
    """Wait until a run has ended, at most `timeout` seconds, and return its status."""
    end = math.inf if timeout is None else time.monotonic() + timeout
    while (status := status_of(run_dir))["state"] in UNFINISHED and time.monotonic() <= end:
        time.sleep(0.1)
    return status


def _is_lost(info: Mapping[str, Any] | None, status: Mapping[str, Any]) -> bool:
    """Return whether a run has not ended, but its launcher has. Without `info`, it is another user's."""
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


def launcher_process(info: Mapping[str, Any]) -> psutil.Process | None:
    """Return the launcher as a psutil.Process; None if it has ended or runs on another machine."""
    import psutil

    from ...system.processes import birth

    if info.get("host") != socket.gethostname():
        return None
    with contextlib.suppress(psutil.Error, KeyError):
        process = psutil.Process(info["pid"])
        # Another process may have got this number since.
        if birth(process) == info["pid_birth"] and process.status() != psutil.STATUS_ZOMBIE:
            return process
    return None

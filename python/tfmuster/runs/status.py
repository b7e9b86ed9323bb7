"""Read the state of a run and of its tasks, and wait for its end."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from .layout import UNFINISHED
from .liveness import is_lost
from .records import read_info, read_status
from .states import read_states


def status_of(run_dir: Path) -> dict[str, Any]:
    """Return the state of a run; see :meth:`.run.Run.status`."""
    status = {"state": "starting", "restarts": 0, "tasks": {}, **read_status(run_dir)}
    if is_lost(read_info(run_dir) if _is_readable(run_dir) else None, status):
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
    end = None if timeout is None else time.monotonic() + timeout
    while (status := status_of(run_dir))["state"] in UNFINISHED:
        if end is not None and time.monotonic() > end:
            break
        time.sleep(0.1)
    return status

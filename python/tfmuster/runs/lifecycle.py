"""How a run directory begins: its name, and what is noted of the launcher, the machine and the program."""

from __future__ import annotations

import os
import re
import signal
import socket
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ..cluster.resolvers import batch_job
from ..errors import LaunchError
from ..system.ask import NoAnswerError, ask
from ..system.versions import recorded_versions
from .layout import RUNS, utc_now, write_json
from .run import Run

#: How long git may take for each answer, seconds.
_GIT_SECONDS = 5.0


def new_run(
    name: str, *, run_dir: str | os.PathLike[str] | None, command: Sequence[str], cluster: Mapping[str, Any]
) -> Run:
    """Make a run directory; ``runs/<UTC time>-<name>`` unless `run_dir` says otherwise.

    Raises
    ------
    LaunchError
        The directory holds another run, or can't be made.
    """
    path = Path(run_dir) if run_dir is not None else new_run_path(name)
    try:
        (path / "logs").mkdir(parents=True)
    except FileExistsError:
        raise LaunchError(
            "The run directory must be a new one.",
            found=f"{path} holds a run already",
            fix="Choose another, or remove it.",
            reason="run-dir",
        ) from None
    except OSError as error:
        raise LaunchError(
            f"The run directory {path} can't be made.", found=error.strerror, reason="run-dir"
        ) from error
    run = Run(path)
    batch = batch_job()
    if batch is not None:
        run.set_stop_command(batch.stop)
    import psutil

    about = {
        "name": name,
        "command": list(command),
        "cluster": dict(cluster),
        "started": utc_now(),
        "directory": os.getcwd(),
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "pid_started": psutil.Process().create_time(),
        # The command's own process ends its workers then; a session of R or Python would just be gone.
        "ends_on_sigterm": signal.getsignal(signal.SIGTERM) is signal.default_int_handler,
        "versions": recorded_versions(),
        **({f"{batch.system}_job": batch.number} if batch else {}),
    }
    write_json(path / "run.json", about)
    run.set_status(state="starting", restarts=0, tasks={})
    return run


def new_run_path(name: str) -> Path:
    """A path under ``runs`` that no other run has, even when several start in one second."""
    stamp = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    stem = f"{stamp}-{re.sub(r'[^A-Za-z0-9._-]+', '-', name).strip('-.') or 'run'}"
    taken = 1
    path = Path(RUNS, stem)
    while path.exists():
        taken += 1
        path = Path(RUNS, f"{stem}-{taken}")
    return path


def record_git(run: Run) -> None:
    """Add the commit of the working directory to ``run.json``, if it is one of git's."""
    try:
        commit = ask("git", "rev-parse", "HEAD", seconds=_GIT_SECONDS)
        status = ask("git", "status", "--porcelain", "-uno", seconds=_GIT_SECONDS)
    except NoAnswerError:
        return
    if commit.code == status.code == 0:
        state = {"commit": commit.output.strip(), "changed": bool(status.output.strip())}
        write_json(run.path / "run.json", {**run.info(), "git": state})

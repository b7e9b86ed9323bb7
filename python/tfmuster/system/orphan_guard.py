"""Guard a job by a process that ends the job's processes if the launcher is killed.

The guard reads a pipe from the launcher, on which it learns of the job's sessions, and can also remove a
temporary folder. The kernel closes the pipe however the launcher dies. A launcher that ends normally ends its
guard first.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import psutil

from .interpreter import run_code, with_tfmuster_on_path
from .limits import cannot_start
from .processes import birth, end_job, note_helper, note_session

# The guard imports nothing before the pipe closes, because the workers need the cores while they start.
_WAIT = """
import sys
sessions = sys.stdin.read().splitlines()
from tfmuster.system.orphan_guard import end_orphans
end_orphans(sessions, *sys.argv[1:])
"""


def start_guard(job: str, folder: Path | None = None) -> subprocess.Popen[bytes]:
    """Start the guard of a job and of a temporary folder. Ctrl-C in the terminal does not reach it.

    Raises
    ------
    LaunchError
        The system starts no process (reason ``start``).
    """
    folders = [] if folder is None else [str(folder)]
    try:
        guard = subprocess.Popen(
            [*run_code(_WAIT), job, *folders],
            env=with_tfmuster_on_path(os.environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        raise cannot_start("The guard of the job", error) from error
    note_helper(guard.pid)
    return guard


def guard_session(guard: subprocess.Popen[bytes], job: str, pid: int) -> None:
    """Note a process that was started for a job in a session of its own, here and in the job's guard."""
    with contextlib.suppress(psutil.Error):  # it has ended
        born = birth(psutil.Process(pid))
        note_session(job, pid, born)
        assert guard.stdin is not None
        # A guard that was killed guards nothing any more, and the job continues.
        with contextlib.suppress(OSError):
            guard.stdin.write(f"{pid} {born}\n".encode())
            guard.stdin.flush()


def dismiss_guard(guard: subprocess.Popen[bytes]) -> None:
    """End the guard before the launcher ends, so that it does not end the job."""
    guard.kill()
    guard.wait()
    assert guard.stdin is not None
    with contextlib.suppress(OSError):
        guard.stdin.close()


def end_orphans(sessions: Iterable[str], job: str, *folders: str) -> None:
    """End the job of a launcher that was killed, and remove the folders.

    ``sessions`` are the process ids and births that :func:`guard_session` has written.
    """
    for session in sessions:
        pid, born = session.split(maxsplit=1)
        note_session(job, int(pid), born)
    end_job(job, grace=1.0)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)

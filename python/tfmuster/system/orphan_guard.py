"""Guard a job by a process that ends the job's processes if the launcher is killed.

The guard reads a pipe from the launcher, and can also remove a temporary folder. The kernel closes the pipe
however the launcher dies. A launcher that ends normally ends its guard first.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from .interpreter import python_executable, with_tfmuster_on_path
from .processes import end_job

# The guard imports nothing before the pipe closes, because the workers need the cores while they start.
_WAIT = """
import sys
sys.stdin.buffer.read()
from tfmuster.system.orphan_guard import end_orphans
end_orphans(*sys.argv[1:])
"""


def start_guard(job: str, folder: Path | None = None) -> subprocess.Popen[bytes]:
    """Start the guard of a job and of a temporary folder. Ctrl-C in the terminal does not reach it."""
    folders = [] if folder is None else [str(folder)]
    return subprocess.Popen(
        [python_executable(), "-c", _WAIT, job, *folders],
        env=with_tfmuster_on_path(os.environ),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def dismiss_guard(guard: subprocess.Popen[bytes]) -> None:
    """End the guard before the launcher ends, so that it does not end the job."""
    guard.kill()
    guard.wait()
    assert guard.stdin is not None
    guard.stdin.close()


def end_orphans(job: str, *folders: str) -> None:
    """End the job of a launcher that was killed, and remove the folders."""
    end_job(job, grace=1.0)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)

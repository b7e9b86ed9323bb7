"""A process that outlives the launcher by a moment: if the launcher is killed, it ends the job's processes.

``python -m tfmuster.launch.guard JOB [FOLDER]``, which also removes a temporary folder, with a pipe from the
launcher as its input. The kernel closes the pipe when the launcher dies, whatever it dies of; a launcher that
ends well says so first.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import IO

from .interpreter import python_executable, with_package
from .processes import end_job


def start_guard(job: str, folder: Path | None = None) -> subprocess.Popen[bytes]:
    """Start the guard of a job, and of a temporary folder, out of reach of the terminal's Ctrl-C."""
    folders = [] if folder is None else [str(folder)]
    return subprocess.Popen(
        [python_executable(), "-m", "tfmuster.launch.guard", job, *folders],
        env=with_package(os.environ),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def dismiss_guard(guard: subprocess.Popen[bytes]) -> None:
    """All is well: end the guard, before it can take the end of its pipe for that of the launcher."""
    guard.kill()
    guard.wait()
    assert guard.stdin is not None
    guard.stdin.close()


def stand_guard(pipe: IO[bytes], job: str, *folders: str) -> None:
    """Wait for the launcher's end, which ends the pipe; then end the job and remove the folders."""
    pipe.read()
    end_job(job, grace=1.0)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    stand_guard(sys.stdin.buffer, *sys.argv[1:])

"""A process that outlives the launcher by a moment: if the launcher is killed, it ends the job's processes.

It has a pipe from the launcher as its input, and may also remove a temporary folder. The kernel closes the
pipe when the launcher dies, whatever it dies of; a launcher that ends well ends its guard first.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from .interpreter import python_executable, with_tfmuster_on_path
from .processes import end_job

# Nothing is imported until it is needed: the workers start at the same time, and want the cores. The pipe
# ends with the launcher.
_WAIT = """
import sys
sys.stdin.buffer.read()
from tfmuster.system.orphan_guard import end_orphans
end_orphans(*sys.argv[1:])
"""


def start_guard(job: str, folder: Path | None = None) -> subprocess.Popen[bytes]:
    """Start the guard of a job, and of a temporary folder, out of reach of the terminal's Ctrl-C."""
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
    """All is well: end the guard, before it can take the end of its pipe for that of the launcher."""
    guard.kill()
    guard.wait()
    assert guard.stdin is not None
    guard.stdin.close()


def end_orphans(job: str, *folders: str) -> None:
    """The launcher is gone without a word: end its job and remove the folders."""
    end_job(job, grace=1.0)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)

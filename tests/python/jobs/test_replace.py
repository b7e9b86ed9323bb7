"""What a process leaves that is killed while it replaces a file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from support.launching import names
from tfmuster.tracking.record.layout import CHECKPOINT
from tfmuster.training import checkpoint_files

KILLED = """
import os, signal, sys
from pathlib import Path
from tfmuster.system.replace import replacing_file
with replacing_file(Path(sys.argv[1])) as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_leaves_of_a_checkpoint_is_removed_with_old_ones(tmp_path: Path) -> None:
    checkpoint_files.write(tmp_path, 1, {"epoch": 1}, [])
    name = f"{2:012d}{CHECKPOINT}"
    done = subprocess.run([sys.executable, "-c", KILLED, tmp_path / name], timeout=30, check=False)
    assert done.returncode == -9
    assert len(names(tmp_path)) == 2
    assert checkpoint_files.steps(tmp_path) == [1]
    assert checkpoint_files.newest(tmp_path) is not None
    checkpoint_files.remove_old(tmp_path, 1, step=1)
    assert names(tmp_path) == [f"{1:012d}{CHECKPOINT}"]

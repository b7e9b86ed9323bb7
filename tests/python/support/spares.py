"""Find the processes that wait to become workers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import psutil

#: Variables that differ between any two jobs.
OF_A_JOB = {
    "TF_CONFIG",
    "TFMUSTER_TF_CONFIG",
    "TFMUSTER_JOB",
    "TFMUSTER_TOKEN",
    "TFMUSTER_RUN_DIR",
    "TFMUSTER_ERROR_FILE",
    "TFMUSTER_PROCESS",
}


def spares_in(folder: Path) -> list[psutil.Process]:
    """The processes of a folder that wait on their standard input, with TensorFlow imported."""
    return spares_of(process for process in psutil.process_iter() if _works_in(process, folder))


def spares_of(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Those of these processes that wait on their standard input, with TensorFlow imported."""
    found = []
    for process in processes:
        try:
            if process.environ().get("TFMUSTER_WARM") and _waits(process):
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def _works_in(process: psutil.Process, folder: Path) -> bool:
    try:
        return bool(process.cwd() == str(folder))
    except (psutil.Error, OSError):
        return False


def _waits(process: psutil.Process) -> bool:
    maps = Path(f"/proc/{process.pid}/maps").read_text()
    reads = Path(f"/proc/{process.pid}/wchan").read_text()
    return "libtensorflow" in maps and reads in ("pipe_read", "anon_pipe_read")

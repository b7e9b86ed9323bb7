"""Find the processes that wait to become workers."""

from __future__ import annotations

from pathlib import Path

import psutil


def spares_in(folder: Path) -> list[psutil.Process]:
    """The processes of a folder that wait on their standard input, with TensorFlow imported."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("TFMUSTER_WARM") and process.cwd() == str(folder) and _waits(process):
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def _waits(process: psutil.Process) -> bool:
    maps = Path(f"/proc/{process.pid}/maps").read_text()
    reads = Path(f"/proc/{process.pid}/wchan").read_text()
    return "libtensorflow" in maps and reads in ("pipe_read", "anon_pipe_read")

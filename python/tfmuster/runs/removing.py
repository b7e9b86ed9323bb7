"""Remove the files of a run, and nothing else."""

from __future__ import annotations

import contextlib
import re
import shutil
from pathlib import Path

from .layout import CALL, STACKS, STATES, STOP_COMMAND

#: The names of run directories that nobody has chosen, ``20260131T235959Z-train``.
_NAMED = re.compile(r"[0-9]{8}T[0-9]{6}Z-.")

#: What tfmuster itself writes into a run directory. Checkpoints, models and TensorBoard's files are not
#: listed: in a directory that a user has chosen, they may be older than the run.
_WRITTEN = (
    *("run.json", "status.json", "error.json", STOP_COMMAND, "stop"),
    *("metrics.jsonl", "notes.jsonl", "evaluations.jsonl"),
    *("logs", STATES, STACKS, CALL, "tfruns.d", "report.html"),
)


def remove_files(run_dir: Path) -> list[str]:
    """Remove a run directory that a launcher has named, or a run's files from a directory that a user has
    chosen.

    Returns
    -------
    list of str
        Names of the files that are not the run's, and stay.
    """
    if _NAMED.match(run_dir.name):
        shutil.rmtree(run_dir)
        return []
    for name in _WRITTEN:
        path = run_dir / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        run_dir.rmdir()
    return sorted(path.name for path in run_dir.iterdir()) if run_dir.exists() else []

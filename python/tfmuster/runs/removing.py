"""Remove the files of a run, and nothing else."""

from __future__ import annotations

import contextlib
import re
import shutil
from pathlib import Path

from ..errors import TfmusterError
from .layout import NAMES, holds_run
from .ownership import foreign

#: The names of run directories that nobody has chosen, ``20260131T235959Z-train``.
_NAMED = re.compile(r"[0-9]{8}T[0-9]{6}Z-.")


def whose(run_dir: Path) -> str:
    """Say whose a run is, if it is another user's; "" if it is not, or if it has no record."""
    try:
        return foreign(run_dir / "run.json")
    except OSError:
        return ""


def remove_files(run_dir: Path) -> list[str]:
    """Remove a run directory that a launcher has named, or a run's files from a directory that a user has
    chosen.

    Returns
    -------
    list of str
        Names of the files that are not the run's, and stay.

    Raises
    ------
    TfmusterError
        If the directory that a user has chosen has no record of a run, or if the run is another user's
        (reason ``foreign``): in a folder that a team shares, permissions do not tell whose it is.
    """
    if found := whose(run_dir):
        raise TfmusterError(
            "A run is removed by the user who launched it.",
            found=found,
            fix="Ask for it, or copy what you need of it and leave the run.",
            run=run_dir.name,
            reason="foreign",
        )
    if _NAMED.match(run_dir.name):
        shutil.rmtree(run_dir)
        return []
    if not holds_run(run_dir):
        raise TfmusterError(
            "The files of a run can be told from yours by its record only.",
            found=f"no record of a run in {run_dir / 'run.json'}",
            fix="Remove the files that you do not need.",
            run=run_dir.name,
        )
    for name in NAMES:
        path = run_dir / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        run_dir.rmdir()
    return sorted(path.name for path in run_dir.iterdir()) if run_dir.exists() else []

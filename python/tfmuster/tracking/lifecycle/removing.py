"""Remove the files of a run that tfmuster has written, and nothing else."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from ...cluster.rules import JOBS
from ...errors import TfmusterError
from ..record.layout import CHECKPOINT_OWNER, MODEL, NAMED, NAMES, TENSORBOARD, checkpoint_step, holds_run
from ..record.ownership import foreign
from ..record.recording import read_info


def whose(run_dir: Path) -> str:
    """Say whose a run is, if it is another user's; "" if it is not, or if it has no record."""
    try:
        return foreign(run_dir / "run.json")
    except OSError:
        return ""


def remove_files(run_dir: Path) -> list[str]:
    """Remove from a run directory what tfmuster has written, and the directory if it is empty then.

    Checkpoints, the model and TensorBoard's files are removed only from a directory whose name tfmuster has
    chosen: in another one, they may be older than the run. Return the names of what is not the run's, and
    stays. In a folder that a team shares, permissions do not tell whose a run is, so its owner is checked.
    """
    if owner := whose(run_dir):
        raise TfmusterError(
            "A run is removed by the user who launched it.",
            found=owner,
            fix="Ask for it, or copy what you need of it and leave the run.",
            run=run_dir.name,
            reason="foreign",
        )
    record = run_dir / "run.json"
    if not holds_run(run_dir):
        if record.is_file():
            record.open("rb").close()  # raises the error of a record that this user can't read
        raise TfmusterError(
            "The files of a run can be told from yours by its record only.",
            found=f"no record of a run in {record}",
            fix="Remove the files that you do not need.",
            run=run_dir.name,
        )
    folders = list(run_dir.glob("checkpoints*")) if (run_dir / NAMED).exists() else []
    for path in list(_written(run_dir)):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    for folder in (*folders, run_dir / "logs", run_dir):
        with contextlib.suppress(OSError):
            folder.rmdir()
    return sorted(path.name for path in run_dir.iterdir()) if run_dir.exists() else []


def _written(run_dir: Path) -> Iterator[Path]:
    """Yield what tfmuster has written, the record and the mark last, so that a removal can be repeated."""
    named, logs = run_dir / NAMED, run_dir / "logs"
    if named.exists():
        yield from _training_files(run_dir)
    # Programs like to write there, too.
    shared = logs.is_dir() and not logs.is_symlink()
    if shared:
        yield from _own_logs(run_dir)
    yield from (run_dir / name for name in NAMES if name != "run.json" and not (shared and name == logs.name))
    yield from (run_dir / "run.json", named)


def _own_logs(run_dir: Path) -> list[Path]:
    """Return the files of ``logs`` that belong to a task, or to the batch system of the run."""
    systems = {key.removesuffix("_job") for key in read_info(run_dir) if key.endswith("_job")}

    def is_own(stem: str) -> bool:
        job, _, index = stem.rpartition("-")
        return stem in systems or (job in JOBS and index.isdigit())

    return [path for path in (run_dir / "logs").iterdir() if is_own(path.name.partition(".")[0])]


def _training_files(run_dir: Path) -> Iterator[Path]:
    """Yield what a program has written with tfmuster's functions. Its other files, and links, are its own."""
    yield from (run_dir / MODEL, run_dir / TENSORBOARD)
    for folder in run_dir.glob("checkpoints*"):
        if folder.is_dir() and not folder.is_symlink():
            for path in folder.iterdir():
                if checkpoint_step(path.name) is not None or path.name == CHECKPOINT_OWNER:
                    yield path

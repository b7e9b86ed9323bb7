"""Find runs: all of a folder, or one by its name."""

from __future__ import annotations

import os
from pathlib import Path

from .errors import TfmusterError
from .runs import RUNS, Run


def runs_in(folder: str | os.PathLike[str] = RUNS) -> list[Run]:
    """All runs in a folder, the oldest first."""
    return [Run(path.parent) for path in sorted(Path(folder).glob("*/run.json"))]


def find_run(name: str | os.PathLike[str] | None = None, folder: str | os.PathLike[str] = RUNS) -> Run:
    """One run, also of another session.

    Parameters
    ----------
    name : str or path, optional
        The run's name, a part of it that no other has, or its path; the newest unless given.
    folder : path
        Where the runs are.

    Raises
    ------
    TfmusterError
        No run is it, or several are.
    """
    if name and Path(name, "run.json").exists():
        return Run(name)
    runs = runs_in(folder)
    named = None if name is None else os.fspath(name)
    found = [run for run in runs if named is None or named == run.name]
    found = found or [run for run in runs if named and named in run.name]
    if not found or (named is not None and len(found) > 1):
        raise TfmusterError(
            "A run must be named by its name, a part of it that no other has, or its path.",
            found=f"{len(found)} runs in {folder} fit {named!r}" if named else f"no runs in {folder}",
            fix="`tfmuster runs list` and run_list() in R show them.",
        )
    return found[-1]


def last_epoch(run: Run) -> str:
    """The last finished epoch and its metrics, in words; "" if there is none."""
    history = run.history()
    values = "  ".join(f"{metric} {column[-1]:.4g}" for metric, column in history.items())
    epochs = max((len(column) for column in history.values()), default=0)
    return f"epoch {epochs}  {values}" if epochs else ""


def table(folder: str | os.PathLike[str] = RUNS) -> list[dict[str, str]]:
    """A row for each run: ``name``, ``path``, ``state``, ``tasks`` (how many), ``started``, ``progress``."""
    rows = []
    for run in runs_in(folder):
        status = run.status()
        rows.append(
            {
                "name": run.name,
                "path": str(run.path),
                "state": str(status["state"]),
                "tasks": str(len(status["tasks"])),
                "started": str(run.info().get("started", "")),
                "progress": last_epoch(run),
            }
        )
    return rows

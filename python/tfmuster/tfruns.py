"""What the R package tfruns reads of a run directory, so that ``tfruns::ls_runs()`` lists it.

Its files, in ``tfruns.d``, are those of tfruns 1.5.4: a property a file, metrics by column, an error.
"""

from __future__ import annotations

import contextlib
import math
import shlex
from datetime import datetime
from pathlib import Path
from typing import Any

from .runs import Run, write_json


def write_tfruns(run: Run) -> None:
    """Write ``tfruns.d`` for a run that has ended. What can't be written is left: it is a courtesy."""
    with contextlib.suppress(OSError):
        _write(run, run.path / "tfruns.d")


def _write(run: Run, folder: Path) -> None:
    info, status, history = run.info(), run.status(), run.history()
    (folder / "properties").mkdir(parents=True, exist_ok=True)
    properties: dict[str, Any] = {
        "type": "training",
        "context": "local",
        "script": shlex.join(map(str, info.get("command", []))),
        "start": _seconds(info.get("started")),
        "end": _seconds(status.get("updated")),
        "completed": str(status["state"] == "done").upper(),
        "epochs": max(map(len, history.values()), default=0),
    }
    for name, value in properties.items():
        (folder / "properties" / name).write_text(f"{value}\n", encoding="utf-8")
    # JSON has no NaN.
    columns = {
        name: [value if math.isfinite(value) else None for value in values]
        for name, values in history.items()
    }
    write_json(folder / "metrics.json", columns)
    if error := run.error():
        told = {"message": error["error"] or f"{error['task']} failed", "traceback": error["traceback"]}
        write_json(folder / "error.json", told)


def _seconds(moment: str | None) -> float:
    return datetime.fromisoformat(moment).timestamp() if moment else 0.0

"""Write the files of a run that the R package tfruns reads, so that ``tfruns::ls_runs()`` lists it.

The files, in ``tfruns.d``, are those of tfruns 1.5.4: one file per property, metrics by column, an error. The
folder is its owner's alone, as ``run.json`` is: one of the properties is the command.
"""

from __future__ import annotations

import contextlib
import math
import shlex
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from .layout import utc_now, write_json


def write_tfruns(
    folder: Path,
    *,
    state: str,
    info: Mapping[str, Any],
    history: Mapping[str, list[float]],
    error: Mapping[str, Any] | None,
) -> None:
    """Write ``tfruns.d`` of a run that is ending. Files that can't be written are skipped.

    Parameters
    ----------
    folder : path
        The folder ``tfruns.d`` of the run directory.
    state : str
        The state in which the run ends.
    info, history, error
        As :class:`tfmuster.tracking.run.Run` returns them.
    """
    with contextlib.suppress(OSError):
        _write(folder, state, info, history, error)


def _write(
    folder: Path,
    state: str,
    info: Mapping[str, Any],
    history: Mapping[str, list[float]],
    error: Mapping[str, Any] | None,
) -> None:
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / "properties").mkdir(exist_ok=True)
    properties: dict[str, Any] = {
        "type": "training",
        "context": "local",
        "script": shlex.join(map(str, info.get("command", []))),
        "start": _seconds(info.get("started")),
        "end": _seconds(utc_now()),
        "completed": str(state == "done").upper(),
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
    if error:
        told = {"message": error["error"] or f"{error['task']} failed", "traceback": error["traceback"]}
        write_json(folder / "error.json", told)


def _seconds(moment: str | None) -> float:
    return datetime.fromisoformat(moment).timestamp() if moment else 0.0

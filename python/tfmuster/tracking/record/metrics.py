"""Write and read ``metrics.jsonl``, to which the chief adds one line per epoch."""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from ...environment import RUN_DIR_VARIABLE
from .layout import append_json

#: File in the run directory with one line per epoch, from the chief.
METRICS = "metrics.jsonl"

#: Keys of a line that are not metrics.
NO_METRICS = ("fit", "epoch", "time", "shown")

_NAN = float("nan")
_fits = itertools.count(1)


def next_fit() -> int:
    """Return the number of the training that begins in this process, from 1.

    A program may train several times, for example once for each fold of its data.
    """
    return next(_fits)


def append_metrics(
    fit: int, epoch: int, values: Mapping[str, Any], *, shown: bool, images_per_second: float | None = None
) -> None:
    """Append a line to the run directory, if this process belongs to a job.

    Parameters
    ----------
    fit : int
        Number of the training, of :func:`next_fit`.
    epoch : int
        Epoch of this training, from 1.
    values : mapping
        The metrics, by their names in Keras.
    shown : bool
        Whether the program shows them itself.
    images_per_second : float, optional
        Speed of the training, if known.
    """
    if folder := os.environ.get(RUN_DIR_VARIABLE):
        line: dict[str, Any] = {"fit": fit, "epoch": epoch, "time": time.time(), "shown": shown}
        if images_per_second is not None:
            line["images_per_second"] = images_per_second
        line.update(numbers(values))
        try:
            append_json(Path(folder) / METRICS, line)
        except OSError as error:
            print(f"can't write the metrics: {error}", file=sys.stderr)


def numbers(values: Mapping[str, Any]) -> dict[str, float]:
    """Return the metrics that are one number each. A user's own metric may be any object."""
    found = {}
    for name, value in values.items():
        with contextlib.suppress(TypeError, ValueError):
            found[name] = float(value)
    return found


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """Read the lines of a run directory, in the order of the trainings and their epochs.

    If a restart repeated an epoch, its last line counts.
    """
    epochs: dict[tuple[int, int], dict[str, Any]] = {}
    with contextlib.suppress(OSError):
        for line in (folder / METRICS).read_bytes().splitlines():
            # The last line may be incomplete, and a program may write other lines or an endless epoch.
            with contextlib.suppress(ValueError, OverflowError):
                said = orjson.loads(line)
                if not isinstance(said, dict):
                    continue
                # JSON has no NaN, the loss of a training that has diverged.
                values = numbers({name: _NAN if value is None else value for name, value in said.items()})
                values["fit"] = fit = int(values.get("fit", 1))
                values["epoch"] = epoch = int(values.get("epoch", len(epochs) + 1))
                epochs[fit, epoch] = values
    return [values for _, values in sorted(epochs.items())]


def history_of(run_dir: Path) -> dict[str, list[float]]:
    """Return the metrics of each epoch by name; see :meth:`.run.Run.history`."""
    epochs = read_metrics(run_dir)
    names = dict.fromkeys(name for values in epochs for name in values if name not in NO_METRICS)
    if any(values["fit"] > 1 for values in epochs):
        return {name: [values.get(name, _NAN) for values in epochs] for name in names}
    return {name: [values[name] for values in epochs if name in values] for name in names}


def epoch_line(values: Mapping[str, Any]) -> str:
    """Describe one line in words, with the loss first and the speed last."""
    names = [name for name in values if name not in (*NO_METRICS, "images_per_second")]
    figures = [f"{name} {values[name]:.4f}" for name in sorted(names, key=lambda name: name != "loss")]
    speed = values.get("images_per_second")
    which = f"fit {values['fit']}, " if values["fit"] > 1 else ""
    rate = [f"{speed:,.0f} images/s"] if speed else []
    return "  ".join([f"{which}epoch {values['epoch']}", *figures, *rate])

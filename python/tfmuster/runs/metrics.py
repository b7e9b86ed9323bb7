"""``metrics.jsonl``: one line per epoch, written by the chief."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from ..environment import RUN_DIR_VARIABLE
from .layout import append_json

#: The chief's line per epoch, in the run directory.
METRICS = "metrics.jsonl"

#: What else is in such a line.
NO_METRICS = ("epoch", "time", "shown")

_NAN = float("nan")


def append_metrics(
    epoch: int, values: Mapping[str, Any], *, shown: bool, images_per_second: float | None = None
) -> None:
    """One line in the run directory of the job that this process belongs to, if it belongs to one.

    Parameters
    ----------
    epoch : int
        From 1.
    values : mapping
        The metrics, as Keras names them.
    shown : bool
        Whether the program shows them itself.
    images_per_second : float, optional
        The speed of the training, if it is known.
    """
    if folder := os.environ.get(RUN_DIR_VARIABLE):
        line: dict[str, Any] = {"epoch": epoch, "time": time.time(), "shown": shown}
        if images_per_second is not None:
            line["images_per_second"] = images_per_second
        line.update(numbers(values))
        try:
            append_json(Path(folder) / METRICS, line)
        except OSError as error:
            print(f"can't write the metrics: {error}", file=sys.stderr)


def numbers(values: Mapping[str, Any]) -> dict[str, float]:
    """Those of Keras's metrics that are one number each; a metric of the user's may be anything."""
    found = {}
    for name, value in values.items():
        with contextlib.suppress(TypeError, ValueError):
            found[name] = float(value)
    return found


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """The lines of a run directory; of an epoch that was repeated after a restart, the last."""
    epochs: dict[int, dict[str, Any]] = {}
    with contextlib.suppress(FileNotFoundError):
        for line in (folder / METRICS).read_bytes().splitlines():
            # The last line may be half written, and a program may write lines of its own: a ValueError, too.
            with contextlib.suppress(ValueError):
                said = orjson.loads(line)
                if not isinstance(said, dict):
                    continue
                # JSON has no NaN, which a loss becomes that has diverged.
                values = numbers({name: _NAN if value is None else value for name, value in said.items()})
                values["epoch"] = epoch = int(values.get("epoch", len(epochs) + 1))
                epochs[epoch] = values
    return [values for _, values in sorted(epochs.items())]


def epoch_line(values: Mapping[str, Any]) -> str:
    """One of these lines in words, the loss first and the speed last."""
    names = [name for name in values if name not in (*NO_METRICS, "images_per_second")]
    figures = [f"{name} {values[name]:.4f}" for name in sorted(names, key=lambda name: name != "loss")]
    speed = values.get("images_per_second")
    return "  ".join([f"epoch {values['epoch']}", *figures, *([f"{speed:,.0f} images/s"] if speed else [])])

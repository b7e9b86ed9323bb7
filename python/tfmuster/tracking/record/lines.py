"""The files to which the chief adds lines.

``metrics.jsonl`` has a line for each epoch, and ``notes.jsonl`` what was decided for a program while it ran.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from ...system.regular_files import read_last_lines
from .layout import append_json, own_run_dir, read_json_lines

METRICS = "metrics.jsonl"
NOTES = "notes.jsonl"

#: Keys of a line of metrics that are not metrics.
NO_METRICS = ("fit", "epoch", "time", "shown")

_NAN = float("nan")
#: The last line may be incomplete, and a user may add others.
_LAST_LINES = 5
_fits = itertools.count(1)


def next_fit() -> int:
    """Return the number of the training that begins in this process, from 1."""
    return next(_fits)


def append_metrics(
    fit: int, epoch: int, values: Mapping[str, object], *, shown: bool, images_per_second: float | None = None
) -> None:
    """Append a line to the run directory, if this process belongs to a job.

    `fit` is the number of the training (:func:`next_fit`), and `epoch` counts from 1 in it. `values` are by
    their names in Keras, and `shown` is whether the program shows them itself.
    """
    if run_dir := own_run_dir():
        line: dict[str, Any] = {"fit": fit, "epoch": epoch, "time": time.time(), "shown": shown}
        if images_per_second is not None:
            line["images_per_second"] = images_per_second
        try:
            append_json(run_dir / METRICS, line | numbers(values))
        except OSError as error:
            print(f"can't write the metrics: {error}", file=sys.stderr)


def numbers(values: Mapping[str, Any]) -> dict[str, float]:
    """Return the metrics that are one number each. A user's own metric may be any object."""
    metrics = {}
    for name, value in values.items():
        # Of a million epochs, contextlib.suppress() would take most of the time.
        try:  # noqa: SIM105
            metrics[name] = float(value)
        except (TypeError, ValueError):
            pass
    return metrics


def read_last_metrics(run_dir: Path) -> dict[str, Any]:
    """Return the last line, of which nothing before is read; empty before the first epoch."""
    with contextlib.suppress(OSError):
        for line in reversed(read_last_lines(f"{run_dir}/{METRICS}", _LAST_LINES).splitlines()):
            with contextlib.suppress(ValueError, OverflowError):
                if isinstance(values := orjson.loads(line), dict):
                    return epoch_values(values, 1)
    return {}


def epoch_values(line: Mapping[str, Any], epoch: int) -> dict[str, Any]:
    """Return the values of a line. `epoch` is its own if the program has written none.

    Raises ValueError or OverflowError if the training or the epoch is no finite number.
    """
    # JSON has no NaN, the loss of a training that has diverged.
    values: dict[str, Any] = numbers({key: _NAN if x is None else x for key, x in line.items()})
    values["fit"] = int(values.get("fit", 1))
    values["epoch"] = int(values.get("epoch", epoch))
    return values


def epoch_line(values: Mapping[str, Any]) -> str:
    """Describe one line in words, with the loss first and the speed last."""
    speed = values.get("images_per_second")
    training = f"fit {values['fit']}, " if values["fit"] > 1 else ""
    rate = [f"{speed:,.0f} images/s"] if speed else []
    figures = [f"{name} {figure}" for name, figure in figures_of(values).items()]
    return "  ".join([f"{training}epoch {values['epoch']}", *figures, *rate])


def figures_of(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the metrics of one line as texts, the loss first."""
    names = [name for name in values if name not in (*NO_METRICS, "images_per_second")]
    return {name: f"{values[name]:.4f}" for name in sorted(names, key=lambda name: name != "loss")}


def say_note(about: str, text: str, **fields: object) -> None:
    """Append a note to the run directory, if this process belongs to a job. Ignore write errors.

    `about` is its subject, such as ``input``, `text` one line for people, and `fields` are the same for
    programs.
    """
    if run_dir := own_run_dir():
        with contextlib.suppress(OSError):
            append_json(run_dir / NOTES, {"time": time.time(), "about": about, "text": text, **fields})


def read_notes(run_dir: Path) -> list[dict[str, Any]]:
    """Return the notes of a run, in the order in which they were written."""
    return [
        note
        for note in read_json_lines(run_dir / NOTES)
        if all(isinstance(note.get(name), str) for name in ("about", "text"))
    ]

"""Find the best epoch of a run, and make the table of its epochs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...record.lines import NO_METRICS

#: How many epochs the table has at most, besides the best one.
_MOST_ROWS = 100
#: Which of these says what is best: the first that a run has. It is minimized.
_CRITERIA = ("val_loss", "loss")


class Best(NamedTuple):
    """The best epoch: its place in the run, from 0, its name, and why it is the best."""

    at: int
    name: str
    why: str


class EpochTable(NamedTuple):
    """The metrics of the last epochs and the best one, as text. `best` is its row, from 0."""

    title: str
    header: list[str]
    rows: list[list[str]]
    best: int | None


def best_epoch(epochs: Sequence[Mapping[str, Any]]) -> Best | None:
    """Return the epoch with the lowest validation loss, or else loss; the first of several. None without."""
    for criterion in _CRITERIA:
        known = [
            (epoch[criterion], at)
            for at, epoch in enumerate(epochs)
            if math.isfinite(epoch.get(criterion, math.nan))
        ]
        if known:
            value, at = min(known)
            return Best(at, _name(epochs[at]), f"lowest {criterion}, {value:.4g}")
    return None


def epoch_table(epochs: Sequence[Mapping[str, Any]], best: Best | None) -> EpochTable | None:
    """Return the table; None without epochs."""
    if not epochs:
        return None
    metrics = [*dict.fromkeys(name for epoch in epochs for name in epoch if name not in NO_METRICS)]
    first = max(0, len(epochs) - _MOST_ROWS)
    shown = [*([best.at] if best is not None and best.at < first else []), *range(first, len(epochs))]
    rows = [
        [
            _name(epochs[at]) + (", best" if best and at == best.at else ""),
            *(f"{epochs[at][name]:.4g}" if name in epochs[at] else "" for name in metrics),
        ]
        for at in shown
    ]
    count = f"the last {_MOST_ROWS} of {len(epochs)}" if first else f"{len(epochs)}"
    return EpochTable(
        f"Epochs, {count}", ["epoch", *metrics], rows, None if best is None else shown.index(best.at)
    )


def _name(epoch: Mapping[str, Any]) -> str:
    return (f"fit {epoch['fit']}, " if epoch["fit"] > 1 else "") + str(epoch["epoch"])

"""Find the best epoch of a run, and make the table of its epochs."""

from __future__ import annotations

import math
from typing import NamedTuple

from ...record.history import History

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


def best_epoch(history: History) -> Best | None:
    """Return the epoch with the lowest validation loss, or else loss; the first of several. None without."""
    for criterion in _CRITERIA:
        if criterion in history.columns:
            values = history.columns[criterion].values
            known = ((value, at) for at, value in enumerate(values) if math.isfinite(value))
            value, at = min(known, default=(math.nan, None))
            if at is not None:
                return Best(at, _name(history, at), f"lowest {criterion}, {value:.4g}")
    return None


def epoch_table(history: History, best: Best | None) -> EpochTable | None:
    """Return the table; None without epochs."""
    count = len(history)
    if not count:
        return None
    first = max(0, count - _MOST_ROWS)
    shown = [*([best.at] if best is not None and best.at < first else []), *range(first, count)]
    rows = [
        [
            _name(history, at) + (", best" if best and at == best.at else ""),
            *(f"{column.values[at]:.4g}" if column.known[at] else "" for column in history.columns.values()),
        ]
        for at in shown
    ]
    return EpochTable(
        f"Epochs, {f'the last {_MOST_ROWS} of {count}' if first else count}",
        ["epoch", *history.columns],
        rows,
        None if best is None else shown.index(best.at),
    )


def _name(history: History, at: int) -> str:
    fit = history.fit(at)
    return (f"fit {fit}, " if fit > 1 else "") + str(history.epoch(at))

"""Which rows of its global batch the current step works on."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

from ..losses import loss_parts

_step = threading.local()


class OneNumberError(Exception):
    """A function of a loss or a metric has returned one number for all rows."""


class PlaceOfRows(NamedTuple):
    """The rows of this worker in the global batch of a step; scalar int64 tensors.

    Attributes
    ----------
    rows, global_rows
        Rows of this worker that count, and those of all workers.
    first
        Place of the worker's first row in the global batch.
    traced
        The number of the worker's rows, if the shapes of the batch have it while the step is traced.
    """

    rows: Any
    global_rows: Any
    first: Any
    traced: int | None = None


@contextlib.contextmanager
def rows_of_step(place: PlaceOfRows) -> Iterator[None]:
    """Inside the block, a step works on these rows of a global batch."""
    import tensorflow as tf

    _step.place = place
    _step.share = tf.cast(place.rows, tf.float32) / tf.cast(place.global_rows, tf.float32)
    loss_parts.begin(_step.share)
    try:
        yield
    finally:
        _step.place = _step.share = None
        loss_parts.begin(None)


def place_of_rows() -> PlaceOfRows | None:
    """Return where the rows of the current step are in the global batch; None outside of a step."""
    return getattr(_step, "place", None)


def share_of_rows() -> Any:
    """Return this worker's share of the rows of the global batch; None outside of a step."""
    return getattr(_step, "share", None)


@contextlib.contextmanager
def whole_batch() -> Iterator[None]:
    """Inside the block, a loss or a metric works on the rows of all workers."""
    _step.whole = True
    try:
        yield
    finally:
        _step.whole = False


def works_on_whole_batch() -> bool:
    """Return whether the rows of all workers are worked on."""
    return getattr(_step, "whole", False)

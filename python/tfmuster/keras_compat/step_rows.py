"""Where the rows of the step that is traced are in its global batch."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ..errors import DataError
from ..words import Words
from . import seams
from .losses import loss_parts
from .rows import LocalBatch, Tensors

if TYPE_CHECKING:
    import tensorflow as tf

_step = threading.local()


class OneNumberError(Exception):
    """A function of a loss or a metric has returned one number for all rows."""


class PlaceOfRows(NamedTuple):
    """The rows of this worker in the global batch of a step; scalar int64 tensors."""

    #: Rows of this worker that count, and those of all workers.
    rows: tf.Tensor
    global_rows: tf.Tensor
    #: Place of the worker's first row in the global batch.
    first: tf.Tensor
    #: The number of the worker's rows, if the shapes of the batch have it while the step is traced.
    traced: int | None
    #: Whether the shapes of one process's batch have the number of its rows.
    known: bool


@contextlib.contextmanager
def running() -> Iterator[None]:
    """Inside the block, a step of ``fit``, ``evaluate`` or ``predict`` is run or traced."""
    _step.running = True
    try:
        yield
    finally:
        _step.running = False


def in_step() -> bool:
    """Return whether a step is run or traced."""
    return getattr(_step, "running", False)


@contextlib.contextmanager
def rows_of_step(
    part: LocalBatch, first: tf.Tensor, data: Tensors = None, *, together: bool = True
) -> Iterator[None]:
    """Inside the block, a step works on these rows of a global batch, where they begin with row ``first``.

    The step is traced for ``data``, by default those of the batch. Without ``together``, other workers may
    have no such step.
    """
    import tensorflow as tf

    data = part.data if data is None else data
    known = _static_rows(part.data) is not None
    _step.place = PlaceOfRows(part.rows, part.global_rows, first, _static_rows(data), known)
    _step.together = together
    _step.share = tf.cast(part.rows, tf.float32) / tf.cast(part.global_rows, tf.float32)
    loss_parts.begin(_step.share, tf.nest.flatten(data, expand_composites=True))
    try:
        with running():
            yield
    finally:
        _step.place = _step.share = None
        loss_parts.begin(None)


def _static_rows(data: Tensors) -> int | None:
    """Return the number of rows of tensors, if their shapes have one."""
    import tensorflow as tf

    shapes = [getattr(tensor, "shape", None) for tensor in tf.nest.flatten(data)]
    lengths = {shape[0] for shape in shapes if shape is not None and shape.rank}
    return lengths.pop() if len(lengths) == 1 else None


def place_of_rows() -> PlaceOfRows | None:
    """Return where the rows of the current step are in the global batch; None outside of a step."""
    return getattr(_step, "place", None)


def check_together(what: str) -> None:
    """Raise a DataError if other workers may have no such step: ``what`` needs the rows of all."""
    if place_of_rows() is not None and not _step.together:
        raise DataError(
            "What looks at the rows of all workers can't predict each worker's own.",
            found=Words("{}, and the workers may have other numbers of batches", what),
            fix="predict the same data on all workers, without own_rows()",
            reason="predict-together",
        )


def share_of_rows() -> tf.Tensor:
    """Return this worker's share of the rows of the global batch; None outside of a step."""
    return getattr(_step, "share", None)


@contextlib.contextmanager
def as_one_process(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """Inside the block, a step is traced as one process would, on the rows of all workers.

    What several workers change is off: to all of Keras and TensorFlow, the strategy has one replica.
    """
    extended = strategy.extended
    workers = seams.NUMBER_OF_WORKERS.of(extended)
    seams.NUMBER_OF_WORKERS.set(extended, 1)
    _step.alone = True
    try:
        yield
    finally:
        _step.alone = False
        seams.NUMBER_OF_WORKERS.set(extended, workers)


def is_one_process() -> bool:
    """Return whether a step is traced as one process would."""
    return getattr(_step, "alone", False)


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

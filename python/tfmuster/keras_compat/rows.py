"""The rows of a global batch that one worker reads.

A *global batch* is what all replicas together consume in one training step. Each worker gets its own
contiguous rows of it. Concatenated in worker order, these rows equal the batch of a single process byte for
byte.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

from .losses import loss_parts
from .process import batches_in_step


class LocalBatch(NamedTuple):
    """One worker's rows of a global batch.

    If a last batch has fewer rows than there are workers, some workers have no rows. They read one
    placeholder row, which must not count: TensorFlow's CPU kernels for convolutions compute a wrong shape for
    an empty batch (seen with 2.21).

    Attributes
    ----------
    data
        Tensors of the worker's rows; never empty.
    rows : scalar int64 tensor
        Number of rows that count: all of them, or 0.
    global_rows : scalar int64 tensor
        Rows of the global batch.
    """

    data: Any
    rows: Any
    global_rows: Any


def traced_rows(data: Any) -> int | None:
    """Return the first dimension of a batch's tensors, if their shapes have one while a step is traced."""
    import tensorflow as tf

    shapes = [getattr(each, "shape", None) for each in tf.nest.flatten(data)]
    known = {shape[0] for shape in shapes if shape is not None and shape.rank}
    return known.pop() if len(known) == 1 else None


def rows_to_read(start: Any, stop: Any) -> tuple[Any, Any]:
    """Return ``[start, stop)`` of :func:`part_of`, or the row before it if that range is empty."""
    import tensorflow as tf

    return tf.where(stop > start, start, tf.maximum(start - 1, 0)), tf.maximum(stop, 1)


def rows_to_read_of(start: int, stop: int) -> tuple[int, int]:
    """Return the same as :func:`rows_to_read` for numbers."""
    return (start, stop) if stop > start else (max(start - 1, 0), max(stop, 1))


def part_of(rows: Any, part: Any, parts: int) -> tuple[Any, Any]:
    """Return the rows ``[start, stop)`` of a batch that part number ``part`` of ``parts`` gets.

    Parts are contiguous, in order, and even: if the rows don't divide, some parts get one more row.
    TensorFlow's DATA auto-shard instead fills the first workers of a partial batch and leaves the last ones
    without rows; with an even split, the mean over replicas stays the mean over rows.

    Parameters
    ----------
    rows : int or scalar integer tensor
        Rows of the global batch.
    part : int or scalar integer tensor
        Index of the part, from 0.
    parts : int
        Number of parts.

    Returns
    -------
    (start, stop)
        Values of the arguments' type. The range is empty only if there are fewer rows than parts.
    """
    return rows * part // parts, rows * (part + 1) // parts


def suits_replicas(global_batch: int, strategy: Any) -> bool:
    """Return whether a batch has equally many rows for each replica: now, or before hosts were lost."""
    counts = [1] if strategy is None else [strategy.num_replicas_in_sync, batches_in_step(strategy)]
    return global_batch >= 1 and any(global_batch % count == 0 for count in counts)


def steps_in_epoch(rows: int, global_batch: int, *, drop_remainder: bool = False) -> int:
    """Return the number of global batches in one pass over ``rows`` rows."""
    return rows // global_batch if drop_remainder else -(-rows // global_batch)


def without_autotuning(dataset: Any) -> Any:
    """Turn off tf.data's autotuning thread, unless the data set's options set autotuning.

    The thread sleeps for 10 ms, then 20, 40, and so on up to a minute. Code that drops the iterator, such as
    the end of ``fit``, waits for it: a cancellation wakes the thread before it sets the flag that the thread
    reads (CancellationManager::StartCancel of TensorFlow 2.21), so it can go back to sleep. Without the
    thread, AUTOTUNE means as many parallel calls as there are cores.
    """
    import tensorflow as tf

    if not isinstance(dataset, tf.data.Dataset) or dataset.options().autotune.enabled is not None:
        return dataset
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


def local_batch(batch: Any, worker: int, workers: int) -> LocalBatch:
    """Return one worker's rows of a global batch."""
    import tensorflow as tf

    rows = rows_of(batch)
    start, stop = part_of(rows, worker, workers)
    first, end = rows_to_read(start, stop)
    of_rows = {id(tensor) for tensor in _with_rows(batch)}

    def part(tensor: Any) -> Any:
        if tensor is None or id(tensor) not in of_rows:
            return tensor
        if isinstance(tensor, tf.SparseTensor):
            others = tf.cast(tensor.dense_shape[1:], tf.int64)
            rows = tf.sparse.slice(
                tensor,
                tf.concat([[first], tf.zeros_like(others)], axis=0),
                tf.concat([[end - first], others], axis=0),
            )
            rows.set_shape([None, *tensor.shape[1:]])
            return rows
        return tensor[first:end]

    return LocalBatch(tf.nest.map_structure(part, batch), stop - start, rows)


def rows_of(batch: Any) -> Any:
    """Return the number of rows of a batch, a scalar int64 tensor."""
    import tensorflow as tf

    first = _with_rows(batch)[0]
    if isinstance(first, tf.SparseTensor):
        return tf.cast(first.dense_shape[0], tf.int64)
    if isinstance(first, tf.RaggedTensor):
        return tf.cast(first.nrows(), tf.int64)
    return tf.shape(first, out_type=tf.int64)[0]


def _with_rows(batch: Any) -> list[Any]:
    """Return the tensors of a batch that have rows; the first one has the number of rows that counts.

    An input may also have something that belongs to all of its rows, such as the matrix of a graph. If the
    number of rows is unknown when the pipeline is built, such a matrix is the input whose size is known; if
    it is known, the inputs with rows are as long as the labels.
    """
    import tensorflow as tf

    absent = (type(None), tf.experimental.Optional)
    tensors = [t for t in tf.nest.flatten(batch) if not isinstance(t, absent) and t.shape.rank != 0]
    after_inputs = {id(t) for t in tf.nest.flatten(batch[1:])} if isinstance(batch, tuple) else set()
    # What a Python function has returned has no shape at all.
    shapeless = [t for t in tensors if t.shape.rank is None]
    shaped = [t for t in tensors if t.shape.rank is not None]
    if unknown := [t for t in shaped if t.shape[0] is None]:
        known = [t for t in shaped if t.shape[0] is not None and id(t) in after_inputs]
    else:
        known = [t for t in reversed(shaped) if t.shape[0] == shaped[-1].shape[0]]
    return [*unknown, *known, *shapeless]


def absent_to_none(data: Any) -> Any:
    """Replace absent optional values with None, as Keras's steps expect."""
    import tensorflow as tf

    return tf.nest.map_structure(lambda t: None if isinstance(t, tf.experimental.Optional) else t, data)


def as_tensors(batch: Any) -> Any:
    """Convert a batch of arrays to tensors; None stays None."""
    import tensorflow as tf

    return tf.nest.map_structure(lambda t: t if t is None else tf.convert_to_tensor(t), batch)


class OfLength:
    """A Keras data adapter with another number of batches."""

    def __init__(self, adapter: Any, batches: int | None) -> None:
        self._adapter = adapter
        self.num_batches = batches

    def __getattr__(self, name: str) -> Any:
        return getattr(self._adapter, name)


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

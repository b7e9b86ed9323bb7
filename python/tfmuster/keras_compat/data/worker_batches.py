"""The steps of workers that have data of their own: how many rows a step has in all, and when all are done.

A worker does not know how many rows the others have. So its data pipeline reads a few batches ahead, and once
for these batches the workers add up their numbers of rows. A sum of 0 means that no worker has more data. A
worker that has no more data continues with placeholder batches that do not count.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from ...errors import DataError
from .. import seams
from ..agreement.documents import Call
from ..process import worker_of
from ..rows import LocalBatch, Tensors, WorkerBatch, map_elements, rows_of
from ..sums.collectives import replica_sum, sum_of_workers

#: Most batches that are read ahead, and most bytes of them.
_MOST_AHEAD = 8
_MOST_BYTES = 32_000_000

_TOTALS = "_tfmuster_totals"


class Taken(NamedTuple):
    """The next element of an iterator: an Optional, whether there is one, and the rows of its group."""

    following: tf.experimental.Optional
    more: tf.Tensor
    totals: tf.Tensor


def worker_pipeline(
    dataset: tf.data.Dataset,
    batches: int | None,
    steps_per_epoch: int | None,
    strategy: tf.distribute.Strategy,
) -> tuple[tf.data.Dataset, int | None]:
    """Return the pipeline of a worker's own batches that the trainer iterates, and the steps of an epoch.

    All workers must call it. ``batches`` and the steps are None if this worker does not know them. Raise a
    DataError (reason ``own-rows``) if only some workers' data end and there are no ``steps_per_epoch``.
    """
    if Call.current and Call.current[-1].name == "predict":
        # No step needs the other workers.
        return map_elements(dataset, _without_others).prefetch(tf.data.AUTOTUNE), batches
    count = int(dataset.cardinality()) if batches is None else batches
    worker, workers = worker_of(strategy)
    of_workers = np.zeros((workers, 2), np.int64)
    of_workers[worker] = count, _ahead(dataset.element_spec)
    of_workers = sum_of_workers(strategy, of_workers).numpy()
    counts, ahead = of_workers[:, 0], int(of_workers[:, 1].min())
    endless = counts == tf.data.INFINITE_CARDINALITY
    if steps_per_epoch is None and endless.any() and not endless.all():
        worker, other = int(np.argmax(endless)), int(np.argmax(~endless))
        size = f"{counts[other]} batches" if counts[other] >= 0 else "data that end"
        raise DataError(
            "The data of all workers must end, or steps_per_epoch must be given.",
            found=f"the data of worker {worker} do not end; worker {other} has {size}",
            fix="pass steps_per_epoch, or remove repeat() from the data",
            reason="own-rows",
        )
    return _endless(dataset, ahead), int(counts.max()) if (counts >= 0).all() else None


def _without_others(batch: Tensors) -> LocalBatch:
    # No global batch has a negative number of rows.
    return LocalBatch(batch, rows_of(batch), tf.constant(-1, tf.int64))


def _ahead(spec: object) -> int:
    """Return how many batches of this type to read ahead."""
    size = 0
    for part in tf.nest.flatten(spec):
        if isinstance(part, tf.TensorSpec) and part.shape.rank is not None:
            # Take 64 for an unknown number of rows.
            size += part.dtype.size * math.prod(
                (64 if axis == 0 else 1) if length is None else length
                for axis, length in enumerate(part.shape)
            )
    return int(min(_MOST_AHEAD, max(1, _MOST_BYTES // max(size, 1))))


def _endless(dataset: tf.data.Dataset, ahead: int) -> tf.data.Dataset:
    """Return an endless data set of :class:`WorkerBatch`; ``ahead`` must be the same on all workers."""
    spec = dataset.element_spec
    dense = [index for index, part in enumerate(tf.nest.flatten(spec)) if isinstance(part, tf.TensorSpec)]
    placeholder = tf.nest.map_structure(_placeholder, spec)

    # A list would become one tensor.
    def keep_a_row(row: tuple[tf.Tensor, ...], counted: tuple[Tensors, tf.Tensor]) -> tuple[object, ...]:
        """Replace a placeholder by a real row if there is one: the model may accept no other size."""
        data, rows = counted
        parts = tf.nest.flatten(data)
        present = tuple(parts[index] for index in dense)
        row = tf.cond(rows > 0, lambda: tuple(part[:1] for part in present), lambda: row)
        present = tf.cond(rows > 0, lambda: present, lambda: row)
        for index, part in zip(dense, present, strict=True):
            parts[index] = part
        return row, (tf.nest.pack_sequence_as(data, parts), rows)

    def numbered(data: Tensors, rows: tf.data.Dataset) -> tf.data.Dataset:
        of_group = tf.ensure_shape(rows.batch(ahead).get_single_element(), [ahead])
        data = tf.data.Dataset.zip(data) if tf.nest.is_nested(data) else data
        batches = tf.data.Dataset.zip((data, rows, tf.data.Dataset.range(ahead)))
        return map_elements(batches, lambda batch: WorkerBatch(batch[0], batch[1], of_group, batch[2]))

    as_it_is = tf.autograph.experimental.do_not_convert
    counted = map_elements(dataset, lambda batch: (batch, rows_of(batch)))
    counted = counted.filter(as_it_is(lambda _, rows: rows > 0))
    ended = tf.data.Dataset.from_tensors((placeholder, tf.constant(0, tf.int64))).repeat()
    first_row = tuple(tf.nest.flatten(placeholder)[index] for index in dense)
    padded = counted.concatenate(ended).scan(first_row, as_it_is(keep_a_row))
    groups = padded.window(ahead, drop_remainder=True).prefetch(1)
    return groups.flat_map(as_it_is(numbered)).prefetch(tf.data.AUTOTUNE)


def _placeholder(spec: tf.TypeSpec) -> Tensors:
    """Return one row of zeros, of size 1 along unknown axes."""

    def filled(shape: list[int | None]) -> list[int]:
        return [1 if length is None else length for length in shape]

    if isinstance(spec, tf.TensorSpec):
        return tf.zeros([1, *filled(spec.shape[1:])], spec.dtype)
    if isinstance(spec, tf.SparseTensorSpec):
        shape = [1, *filled(spec.shape[1:])]
        return tf.SparseTensor(
            tf.zeros([0, len(shape)], tf.int64), tf.zeros([0], spec.dtype), tf.constant(shape, tf.int64)
        )
    if isinstance(spec, tf.RaggedTensorSpec):
        inner = [0, *filled(spec.shape[spec.ragged_rank + 1 :])]
        splits = [tf.constant([0, 0], spec.row_splits_dtype)]
        splits += [tf.constant([0], spec.row_splits_dtype)] * (spec.ragged_rank - 1)
        return tf.RaggedTensor.from_nested_row_splits(tf.zeros(inner, spec.dtype), splits)
    return tf.experimental.Optional.empty(seams.OPTIONAL_ELEMENT.of(spec, None))


def yields_worker_batches(iterator: tf.data.Iterator) -> bool:
    """Return whether an iterator yields batches that only this worker has."""
    return isinstance(iterator.element_spec, WorkerBatch)


def totals_of(iterator: tf.data.Iterator) -> tf.Tensor:
    """Return the rows of all workers in the current group of an iterator, as the last execution left them."""
    totals = getattr(iterator, _TOTALS, None)
    if totals is not None:
        return totals
    size = iterator.element_spec.ahead.shape[0] if yields_worker_batches(iterator) else 1
    return tf.fill([size], tf.constant(-1, tf.int64))


def keep_totals(iterator: tf.data.Iterator, totals: tf.Tensor) -> None:
    """Remember the rows of all workers for the next execution."""
    if yields_worker_batches(iterator):
        setattr(iterator, _TOTALS, totals)


def take(iterator: tf.data.Iterator, totals: tf.Tensor, strategy: tf.distribute.Strategy) -> Taken:
    """Take the next element. If it is this worker's own, the workers first add up the rows of a new group."""
    following = iterator.get_next_as_optional()
    if not yields_worker_batches(iterator):
        return Taken(following, following.has_value(), totals)
    part = following.get_value()

    new = tf.logical_or(tf.equal(part.position, 0), totals[0] < 0)
    totals = tf.cond(new, lambda: strategy.run(replica_sum, args=(part.ahead,)), lambda: totals)
    return Taken(following, totals[part.position] > 0, tf.ensure_shape(totals, part.ahead.shape))


def batch_of(taken: Taken) -> Tensors:
    """Return the batch that a step trains on; one that only this worker has as a :class:`LocalBatch`."""
    part = taken.following.get_value()
    if not isinstance(part, WorkerBatch):
        return part
    return LocalBatch(part.data, part.rows, taken.totals[part.position])

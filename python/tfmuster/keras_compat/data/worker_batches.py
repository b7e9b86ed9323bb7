"""The steps of workers that have rows of their own: how many rows a step has in all, and when all are done.

A worker does not know how many rows the others have. So its data pipeline reads a few batches ahead, and once
for these batches the workers add up their numbers of rows. A sum of 0 means that no worker has more data. A
worker that has no more data continues with placeholder batches that do not count.
"""

from __future__ import annotations

import contextlib
import contextvars
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ...errors import DataError
from .. import seams
from ..process import worker_of
from ..rows import LocalBatch, rows_of
from ..sums.collectives import replica_sum, sum_of_workers
from .pipelines import is_tuple

#: Most batches that are read ahead, and most bytes of them.
_MOST_AHEAD = 8
_MOST_BYTES = 32_000_000

_TOTALS = "_tfmuster_totals"

_predicting = contextvars.ContextVar("predicting", default=False)


@contextlib.contextmanager
def predicting() -> Iterator[None]:
    """Inside the block, own rows are read without the other workers, because no step needs them."""
    before = _predicting.set(True)
    try:
        yield
    finally:
        _predicting.reset(before)


class OwnBatch(NamedTuple):
    """A worker's own batch, with what it has to tell the others.

    Attributes
    ----------
    data
        Tensors of the rows; a placeholder of one row if the worker has no more data.
    rows : scalar int64 tensor
        Number of rows that count.
    ahead : int64 tensor
        Rows of this worker in each batch of a group of batches that are read together.
    position : scalar int64 tensor
        Index of this batch in its group, the same on all workers.
    """

    data: Any
    rows: Any
    ahead: Any
    position: Any


class Taken(NamedTuple):
    """The next element of an iterator: an Optional, whether there is one, and the rows of its group."""

    following: Any
    more: Any
    totals: Any


class OwnRows(NamedTuple):
    """The pipeline of a worker's own rows, and the steps of an epoch; None if a worker does not know them."""

    dataset: Any
    steps: int | None


def read_own_rows(dataset: Any, batches: int | None, steps_per_epoch: int | None, strategy: Any) -> OwnRows:
    """Return the pipeline that the trainer iterates. All workers must call it.

    Parameters
    ----------
    dataset : tf.data.Dataset
        This worker's own batches.
    batches : int or None
        Their number; None if it is not known.
    steps_per_epoch : int or None
        The user's argument of this name.
    strategy : tf.distribute.MultiWorkerMirroredStrategy
        The strategy of all workers.

    Raises
    ------
    DataError
        Some workers' data end, others' do not, and there are no ``steps_per_epoch`` (reason ``own-rows``).
    """
    import tensorflow as tf

    if _predicting.get():
        return OwnRows(_alone(dataset), batches)
    count = int(dataset.cardinality()) if batches is None else batches
    worker, workers = worker_of(strategy)
    found = np.zeros((workers, 2), np.int64)
    found[worker] = count, _ahead(dataset.element_spec)
    found = sum_of_workers(strategy, found).numpy()
    counts, ahead = found[:, 0], int(found[:, 1].min())
    endless = counts == tf.data.INFINITE_CARDINALITY
    if steps_per_epoch is None and endless.any() and not endless.all():
        worker, other = int(np.argmax(endless)), int(np.argmax(~endless))
        size = f"{counts[other]} batches" if counts[other] >= 0 else "data that end"
        raise DataError(
            "The data of all workers must end, or steps_per_epoch must be given.",
            found=f"the data of worker {worker} do not end; worker {other} has {size}",
            fix="pass steps_per_epoch, or remove repeat() from the data",
            path=None,
            reason="own-rows",
        )
    return OwnRows(own_batches(dataset, ahead), int(counts.max()) if (counts >= 0).all() else None)


def _ahead(spec: Any) -> int:
    """Return how many batches of this type to read ahead."""
    import tensorflow as tf

    size = 0
    for part in tf.nest.flatten(spec):
        if isinstance(part, tf.TensorSpec) and part.shape.rank is not None:
            # Take 64 for an unknown number of rows.
            size += part.dtype.size * math.prod(
                (64 if axis == 0 else 1) if length is None else length
                for axis, length in enumerate(part.shape)
            )
    return int(min(_MOST_AHEAD, max(1, _MOST_BYTES // max(size, 1))))


def own_batches(dataset: Any, ahead: int) -> Any:
    """Return an endless data set of :class:`OwnBatch`; ``ahead`` must be the same on all workers."""
    import tensorflow as tf

    spec = dataset.element_spec
    dense = [index for index, part in enumerate(tf.nest.flatten(spec)) if isinstance(part, tf.TensorSpec)]
    placeholder = tf.nest.map_structure(_placeholder, spec)

    def count(*batch: Any) -> Any:
        data = batch if is_tuple(dataset) else batch[0]
        return data, rows_of(data)

    # A list would become one tensor.
    def keep_a_row(row: tuple[Any, ...], data: Any, rows: Any) -> Any:
        """Replace a placeholder by a real row if there is one: the model may accept no other size."""
        parts = tf.nest.flatten(data)
        own = tuple(parts[index] for index in dense)
        row = tf.cond(rows > 0, lambda: tuple(part[:1] for part in own), lambda: row)
        own = tf.cond(rows > 0, lambda: own, lambda: row)
        for index, part in zip(dense, own, strict=True):
            parts[index] = part
        return row, (tf.nest.pack_sequence_as(data, parts), rows)

    def numbered(data: Any, rows: Any) -> Any:
        of_group = tf.ensure_shape(rows.batch(ahead).get_single_element(), [ahead])
        data = tf.data.Dataset.zip(data) if tf.nest.is_nested(data) else data
        return tf.data.Dataset.zip((data, rows, tf.data.Dataset.range(ahead))).map(
            as_it_is(lambda values, count, position: OwnBatch(values, count, of_group, position))
        )

    # AutoGraph would convert these functions anew for each data set, and has nothing to convert in them.
    as_it_is = tf.autograph.experimental.do_not_convert
    counted = dataset.map(as_it_is(count)).filter(as_it_is(lambda _, rows: rows > 0))
    ended = tf.data.Dataset.from_tensors((placeholder, tf.constant(0, tf.int64))).repeat()
    first_row = tuple(tf.nest.flatten(placeholder)[index] for index in dense)
    padded = counted.concatenate(ended).scan(first_row, as_it_is(lambda row, each: keep_a_row(row, *each)))
    groups = padded.window(ahead, drop_remainder=True).prefetch(1)
    return groups.flat_map(as_it_is(numbered)).prefetch(tf.data.AUTOTUNE)


def _placeholder(spec: Any) -> Any:
    """Return one row of zeros, of size 1 along unknown axes."""
    import tensorflow as tf

    if isinstance(spec, tf.TensorSpec):
        return tf.zeros([1, *(1 if length is None else length for length in spec.shape[1:])], spec.dtype)
    if isinstance(spec, tf.SparseTensorSpec):
        shape = [1, *(1 if length is None else length for length in spec.shape[1:])]
        return tf.SparseTensor(
            tf.zeros([0, len(shape)], tf.int64), tf.zeros([0], spec.dtype), tf.constant(shape, tf.int64)
        )
    if isinstance(spec, tf.RaggedTensorSpec):
        inner = [0, *(1 if length is None else length for length in spec.shape[spec.ragged_rank + 1 :])]
        splits = [tf.constant([0, 0], spec.row_splits_dtype)]
        splits += [tf.constant([0], spec.row_splits_dtype)] * (spec.ragged_rank - 1)
        return tf.RaggedTensor.from_nested_row_splits(tf.zeros(inner, spec.dtype), splits)
    return tf.experimental.Optional.empty(seams.OPTIONAL_ELEMENT.of(spec, None))


def _alone(dataset: Any) -> Any:
    """Return a data set of the worker's own batches that needs no other worker."""
    import tensorflow as tf

    def local(*batch: Any) -> LocalBatch:
        data = batch if is_tuple(dataset) else batch[0]
        # No global batch has a negative number of rows.
        return LocalBatch(data, rows_of(data), tf.constant(-1, tf.int64))

    return dataset.map(tf.autograph.experimental.do_not_convert(local)).prefetch(tf.data.AUTOTUNE)


def no_totals(iterator: Any) -> Any:
    """Return the value of ``totals`` for the first :func:`take` of an iterator."""
    import tensorflow as tf

    spec = getattr(iterator, "element_spec", None)
    return tf.fill([spec.ahead.shape[0] if isinstance(spec, OwnBatch) else 1], tf.constant(-1, tf.int64))


def totals_of(iterator: Any) -> Any:
    """Return the rows of all workers in the current group of an iterator, as the last execution left them."""
    totals = getattr(iterator, _TOTALS, None)
    return no_totals(iterator) if totals is None else totals


def has_own_rows(iterator: Any) -> bool:
    """Return whether an iterator yields this worker's own batches."""
    return isinstance(iterator.element_spec, OwnBatch)


def keep_totals(iterator: Any, totals: Any) -> None:
    """Remember the rows of all workers for the next execution."""
    if has_own_rows(iterator):
        setattr(iterator, _TOTALS, totals)


def take(iterator: Any, totals: Any, strategy: Any) -> Taken:
    """Take the next element. With own rows, the workers first add up those of a new group."""
    import tensorflow as tf

    following = iterator.get_next_as_optional()
    if not has_own_rows(iterator):
        return Taken(following, following.has_value(), totals)
    part = following.get_value()

    new = tf.logical_or(tf.equal(part.position, 0), totals[0] < 0)
    totals = tf.cond(new, lambda: strategy.run(replica_sum, args=(part.ahead,)), lambda: totals)
    return Taken(following, totals[part.position] > 0, tf.ensure_shape(totals, part.ahead.shape))


def local_part_of(taken: Taken) -> Any:
    """Return the batch that a step trains on; with own rows as a :class:`LocalBatch`."""
    part = taken.following.get_value()
    if not isinstance(part, OwnBatch):
        return part
    return LocalBatch(part.data, part.rows, taken.totals[part.position])

"""Which rows of a global batch one worker works on.

A *global batch* is what all replicas together consume in one training step. Each worker gets its own
contiguous rows of it. Concatenated in worker order, these rows equal the batch of a single process byte for
byte.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from .process import batches_in_step
from .row_sums import sums_of_rows

if TYPE_CHECKING:
    import tensorflow as tf

#: A tensor, or a structure of tensors as :mod:`tf.nest` knows it.
Tensors: TypeAlias = "tf.Tensor | tuple[Any, ...] | list[Any] | dict[str, Any]"

#: A number of rows that is known, or known only when the graph runs.
Count: TypeAlias = "int | tf.Tensor"

_PIPELINE = "_tfmuster_pipeline"
_ROWS = "_tfmuster_rows"


class WorkerPipeline(Protocol):
    """Make a data set that reads only what one worker trains on."""

    def __call__(
        self,
        worker: int | None = None,
        workers: int = 1,
        /,
        *,
        every: tuple[int, int] = (0, 1),
        skip: int = 0,
    ) -> tf.data.Dataset:
        """Return a data set of a worker's :class:`LocalBatch`, or of global batches for a worker of None.

        With ``every=(i, n)``, it has only each n-th batch, starting with the i-th; the first ``skip`` of
        these are left out.
        """


def attach_pipeline(dataset: tf.data.Dataset, pipeline: WorkerPipeline, rows: Mapping[str, str]) -> None:
    """Let ``fit`` and parameter servers read a data set of global batches by a pipeline for each worker.

    ``rows`` are texts, by names for errors, that tell the rows and their order: equal on all workers.
    """
    setattr(dataset, _PIPELINE, pipeline)
    setattr(dataset, _ROWS, rows)


def attached_rows(data: object) -> Mapping[str, str]:
    """Return what tells the rows of a data set with an attached pipeline."""
    return getattr(data, _ROWS, {})


def attached_pipeline(data: object) -> WorkerPipeline | None:
    """Return the pipeline of :func:`attach_pipeline`; None if the data have none."""
    return getattr(data, _PIPELINE, None)


class LocalBatch(NamedTuple):
    """One worker's rows of a global batch.

    If a last batch has fewer rows than there are workers, some workers have no rows. They read one
    placeholder row, which must not count: TensorFlow's CPU kernels for convolutions compute a wrong shape for
    an empty batch (seen with 2.21).
    """

    #: Tensors of the worker's rows; never empty.
    data: Tensors
    #: Number of rows that count, a scalar int64: all of them, or 0.
    rows: tf.Tensor
    #: Rows of the global batch, a scalar int64; negative if the other workers' rows do not matter.
    global_rows: tf.Tensor
    #: Three sums over the global batch, from `sums_of_rows`; 0 if they need not be compared. The first
    #: is NaN if a worker has not the same share of all parts of the batch.
    sums: tf.Tensor = np.zeros(3)


class JoinedBatch(LocalBatch):
    """Rows of batches of several data sets, which may have different numbers: all its tensors have rows."""


class WorkerBatch(NamedTuple):
    """A batch of data that only this worker has, with what it has to tell the others."""

    #: Tensors of the rows; a placeholder of one row if the worker has no more data.
    data: Tensors
    #: Number of rows that count.
    rows: tf.Tensor
    #: Rows of this worker in each batch of a group of batches that are read together.
    ahead: tf.Tensor
    #: Index of this batch in its group, the same on all workers.
    position: tf.Tensor


def part_of(rows: Count, part: Count, parts: int) -> tuple[Count, Count]:
    """Return the rows ``[start, stop)`` of a batch that part number ``part`` of ``parts`` gets.

    Parts are contiguous, in order, and even: if the rows don't divide, some parts get one more row.
    TensorFlow's DATA auto-shard instead fills the first workers of a partial batch and leaves the last ones
    without rows; with an even split, the mean over replicas stays the mean over rows. The range is empty only
    if there are fewer rows than parts.
    """
    return rows * part // parts, rows * (part + 1) // parts


def rows_to_read(start: tf.Tensor, stop: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return ``[start, stop)`` of :func:`part_of`, or the row before it if that range is empty."""
    import tensorflow as tf

    stop = tf.maximum(stop, 1)
    return tf.minimum(start, stop - 1), stop


def rows_to_read_of(start: int, stop: int) -> tuple[int, int]:
    """Return the same as :func:`rows_to_read` for numbers."""
    stop = max(stop, 1)
    return min(start, stop - 1), stop


def suits_replicas(global_batch: int, strategy: tf.distribute.Strategy | None) -> bool:
    """Return whether a batch has equally many rows for each replica: now, or before hosts were lost."""
    counts = [1] if strategy is None else [strategy.num_replicas_in_sync, batches_in_step(strategy)]
    return global_batch >= 1 and any(global_batch % count == 0 for count in counts)


def steps_in_epoch(rows: int, global_batch: int, *, drop_remainder: bool = False) -> int:
    """Return the number of global batches in one pass over ``rows`` rows."""
    return rows // global_batch if drop_remainder else -(-rows // global_batch)


def without_autotuning(data: tf.data.Dataset | tf.distribute.DistributedDataset) -> tf.data.Dataset:
    """Turn off tf.data's autotuning thread, unless the data set's options set autotuning.

    The thread sleeps for 10 ms, then 20, 40, and so on up to a minute. Code that drops the iterator, such as
    the end of ``fit``, waits for it: a cancellation wakes the thread before it sets the flag that the thread
    reads (CancellationManager::StartCancel of TensorFlow 2.21), so it can go back to sleep. Without the
    thread, AUTOTUNE means as many parallel calls as there are cores.
    """
    import tensorflow as tf

    if not isinstance(data, tf.data.Dataset) or data.options().autotune.enabled is not None:
        return data
    options = tf.data.Options()
    options.autotune.enabled = False
    return data.with_options(options)


def map_elements(
    dataset: tf.data.Dataset, function: Callable[..., object], **options: object
) -> tf.data.Dataset:
    """Map a function that takes each element as one argument, also if it is a tuple."""
    import tensorflow as tf

    several = type(dataset.element_spec) is tuple

    # It would convert the function anew for each data set, and has nothing to convert in it.
    @tf.autograph.experimental.do_not_convert
    def mapped(*parts: Tensors) -> object:
        return function(parts if several else parts[0])

    return dataset.map(mapped, **options)


def worker_rows(
    dataset: tf.data.Dataset,
    worker: int,
    workers: int,
    compared: Callable[[Tensors], Tensors] | None = None,
    **options: object,
) -> tf.data.Dataset:
    """Return a data set of one worker's rows of the global batches of another; ``options`` are of `map`.

    ``compared`` returns what of a batch must be equal on all workers.
    """
    return map_elements(dataset, _parts_of_worker(worker, workers, compared), **options)


@functools.cache
def _parts_of_worker(
    worker: int, workers: int, compared: Callable[[Tensors], Tensors] | None
) -> Callable[[Tensors], LocalBatch]:
    """Return a function of :func:`local_batch`, which is traced once for all data sets of one type."""
    import tensorflow as tf

    @tf.function(autograph=False)  # type: ignore[untyped-decorator]
    def part(batch: Tensors) -> LocalBatch:
        return local_batch(batch, worker, workers, None if compared is None else compared(batch))

    return part  # type: ignore[no-any-return]


def local_batch(batch: Tensors, worker: int, workers: int, compared: Tensors | None = None) -> LocalBatch:
    """Return one worker's rows of a global batch, with the sums of what all workers must have alike."""
    import tensorflow as tf

    rows = rows_of(batch)
    start, stop = part_of(rows, worker, workers)
    first, end = rows_to_read(start, stop)
    of_rows = {id(tensor) for tensor in tensors_with_rows(batch)}

    def part(tensor: tf.Tensor | None) -> tf.Tensor | None:
        if tensor is None or id(tensor) not in of_rows:
            return tensor
        if isinstance(tensor, tf.SparseTensor):
            others = tf.cast(tensor.dense_shape[1:], tf.int64)
            part = tf.sparse.slice(
                tensor,
                tf.concat([[first], tf.zeros_like(others)], axis=0),
                tf.concat([[end - first], others], axis=0),
            )
            part.set_shape([None, *tensor.shape[1:]])
            return part
        return tensor[first:end]

    sums = tf.zeros(3, tf.float64) if compared is None else sums_of_rows(compared)
    unknown = [tensor for tensor in tensors_with_rows(batch) if tensor.shape[:1] == [None]]
    sums = _if_all(sums, [_size(tensor) == rows for tensor in unknown])
    return LocalBatch(tf.nest.map_structure(part, batch), stop - start, rows, sums)


def joined(batches: Sequence[LocalBatch], data: Tensors) -> LocalBatch:
    """Return the rows of one worker of several batches, which train together as ``data``."""
    import tensorflow as tf

    first = batches[0]
    alike = [batch.rows * first.global_rows == first.rows * batch.global_rows for batch in batches[1:]]
    sums = tf.add_n([tf.convert_to_tensor(batch.sums) for batch in batches])
    return JoinedBatch(data, first.rows, first.global_rows, _if_all(sums, alike))


def _if_all(sums: tf.Tensor, conditions: list[tf.Tensor]) -> tf.Tensor:
    """Return sums, or NaN in place of them unless all conditions are true."""
    import tensorflow as tf

    return tf.where(tf.reduce_all(conditions), sums, math.nan) if conditions else sums


def rows_of(batch: Tensors) -> tf.Tensor:
    """Return the number of rows of a batch, a scalar int64 tensor."""
    return _size(tensors_with_rows(batch)[0])


def _size(tensor: tf.Tensor | tf.SparseTensor | tf.RaggedTensor) -> tf.Tensor:
    import tensorflow as tf

    if isinstance(tensor, tf.SparseTensor):
        return tf.cast(tensor.dense_shape[0], tf.int64)
    if isinstance(tensor, tf.RaggedTensor):
        return tf.cast(tensor.nrows(), tf.int64)
    return tf.shape(tensor, out_type=tf.int64)[0]


def tensors_with_rows(batch: Tensors) -> list[tf.Tensor]:
    """Return the tensors, or types, of a batch that have rows; the first has the number of rows that counts.

    An input may also have something that belongs to all of its rows, such as the matrix of a graph. If the
    number of rows is unknown when the pipeline is built, such a matrix is the input whose size is known; if
    it is known, the inputs with rows are as long as the labels.
    """
    import tensorflow as tf

    # Absent values have no shape.
    tensors = [t for t in tf.nest.flatten(batch) if hasattr(t, "shape") and t.shape.rank != 0]
    after_inputs = {id(t) for t in tf.nest.flatten(batch[1:])} if isinstance(batch, tuple) else set()
    # What a Python function has returned has no shape at all.
    shapeless = [t for t in tensors if t.shape.rank is None]
    shaped = [t for t in tensors if t.shape.rank is not None]
    if unknown := [t for t in shaped if t.shape[0] is None]:
        known = [t for t in shaped if t.shape[0] is not None and id(t) in after_inputs]
    else:
        known = [t for t in reversed(shaped) if t.shape[0] == shaped[-1].shape[0]]
    return [*unknown, *known, *shapeless]


def parts_with_rows(part: LocalBatch, data: Tensors) -> list[tf.Tensor]:
    """Return those of a part's data, or of their types, that have rows."""
    import tensorflow as tf

    if not isinstance(part, JoinedBatch):
        return tensors_with_rows(data)
    return [t for t in tf.nest.flatten(data) if hasattr(t, "shape") and t.shape.rank != 0]


def of_any_size(part: LocalBatch) -> Tensors:
    """Return the data of a part, whose number of rows is not known while a step is traced."""
    import tensorflow as tf

    of_rows = {id(tensor) for tensor in parts_with_rows(part, part.data)}

    def unknown(tensor: Tensors) -> Tensors:
        if id(tensor) not in of_rows or not isinstance(tensor, tf.Tensor) or tensor.shape.rank is None:
            return tensor
        return tf.raw_ops.PlaceholderWithDefault(input=tensor, shape=[None, *tensor.shape[1:]])

    return tf.nest.map_structure(unknown, part.data)


def absent_to_none(data: Tensors) -> Tensors:
    """Replace absent optional values with None, as Keras's steps expect."""
    import tensorflow as tf

    return tf.nest.map_structure(lambda t: None if isinstance(t, tf.experimental.Optional) else t, data)


def as_tensors(batch: object) -> Tensors:
    """Convert a batch of arrays to tensors; None stays None."""
    import tensorflow as tf

    return tf.nest.map_structure(lambda t: t if t is None else tf.convert_to_tensor(t), batch)


class OfLength:
    """A Keras data adapter with another number of batches."""

    def __init__(self, adapter: object, batches: int | None) -> None:
        self._adapter = adapter
        self.num_batches = batches

    def __getattr__(self, name: str) -> Any:
        return getattr(self._adapter, name)

"""Split a training set into global batches, and give each worker its own rows of every batch.

A *global batch* is what all replicas together consume in one training step. Every epoch is one full, seeded
permutation of the rows, cut in order into global batches; worker *w* gathers only its own contiguous rows of
each. Concatenated in worker order, these rows equal the batches of a single process byte for byte, and no
worker reads rows that another one trains on.

The permutation is computed row by row (``tf.random.experimental.index_shuffle``, a block cipher on the
index), so a batch is a pure function of seed, epoch, and step. There is no shuffle buffer to fill, and
creating and dropping another iterator does not change the order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import DataError
from ..keras_compat.rows import (
    LocalBatch,
    attach_pipeline,
    part_of,
    rows_to_read,
    steps_in_epoch,
    suits_replicas,
    without_autotuning,
)
from ..system.tensorflow_import import import_tensorflow

if TYPE_CHECKING:
    import numpy.typing as npt

NUM_CLASSES = 10


def batches(
    x: npt.NDArray[Any],
    y: npt.NDArray[Any],
    batch_size: int,
    *,
    seed: int,
    shuffle: bool = True,
    strategy: Any = None,
    steps: int | None = None,
    repeated: bool = False,
    drop_remainder: bool = False,
    one_hot: bool = False,
    first_epoch: int = 0,
) -> Any:
    """Make an input pipeline for ``model.fit`` or a custom loop, the same for every number of workers.

    Parameters
    ----------
    x : array, shape (n, ...)
        Images. Their data type (uint8 for digits) does not change until they are on the device.
    y : array of integers, shape (n,)
        Labels.
    batch_size : int
        Rows of one step on all replicas together.
    seed : int
        Seed of the permutations. Must be the same on every worker.
    shuffle : bool
        Use a new full permutation in each epoch; ``False`` keeps the order of ``x``.
    strategy : tf.distribute.Strategy, optional
        Strategy whose number of replicas must divide the global batch.
    steps : int, optional
        End after this many global batches. To get more than one pass holds, set ``repeated=True``.
    repeated : bool
        Repeat without end, with a new permutation in each epoch. Use it for training with
        ``fit(steps_per_epoch=...)``: the workers then need not agree in each step on whether the data has
        ended. Otherwise each iteration gives the permutation of ``first_epoch``.
    drop_remainder : bool
        Drop the last, partial batch of each epoch. Otherwise it is split evenly over the replicas
        (see :func:`part_of`).
    one_hot : bool
        Return labels as float32 of shape (batch, 10), for ``categorical_crossentropy``.
    first_epoch : int
        Number of the first epoch of a resumed training. Its permutation is that of the same epoch in an
        uninterrupted run.

    Returns
    -------
    tf.data.Dataset
        Pairs (images, labels), one per global batch. The arrays are in memory once, as one tensor. Pass it
        to ``fit`` under any strategy: with several workers, ``fit`` requests only the rows of this worker
        (:mod:`tfmuster.keras_compat`). In a custom loop, distribute it with
        ``strategy.experimental_distribute_dataset``.

    Raises
    ------
    DataError
        The lengths differ; there are no rows; or the global batch is not positive, too large for
        ``drop_remainder``, or not divisible by the number of replicas.
    """
    _check(x, y, batch_size, strategy, drop_remainder)
    tf = import_tensorflow()
    rows = tf.convert_to_tensor(x), tf.convert_to_tensor(y)

    def pipeline(
        part: int | None = None, parts: int = 1, *, every: tuple[int, int] = (0, 1), skip: int = 0
    ) -> Any:
        return _pipeline(
            *rows,
            batch_size,
            part,
            parts,
            seed=seed if shuffle else None,
            steps=steps,
            repeated=repeated,
            drop_remainder=drop_remainder,
            one_hot=one_hot,
            first_epoch=first_epoch,
            every=every,
            skip=skip,
        )

    whole = pipeline()
    attach_pipeline(whole, pipeline)
    return whole


def _pipeline(
    x: Any,
    y: Any,
    global_batch: int,
    part: int | None,
    parts: int,
    *,
    seed: int | None,
    steps: int | None,
    repeated: bool,
    drop_remainder: bool,
    one_hot: bool,
    first_epoch: int,
    every: tuple[int, int],
    skip: int,
) -> Any:
    """Make a data set of the global batches or, with ``part`` of ``parts``, of a :class:`LocalBatch` of each.

    ``every=(i, n)`` keeps only each n-th batch, starting with the i-th; the first ``skip`` of these are
    dropped.
    """
    import tensorflow as tf

    total = int(x.shape[0])
    steps_per_epoch = steps_in_epoch(total, global_batch, drop_remainder=drop_remainder)
    ragged = not drop_remainder and total % global_batch != 0
    static_rows = None if ragged or global_batch % parts else global_batch // parts

    def gather(step: Any) -> Any:
        epoch, step_of_epoch = step // steps_per_epoch, step % steps_per_epoch
        begin = step_of_epoch * global_batch
        size = tf.minimum(total - begin, global_batch)
        start, stop = part_of(size, part or 0, parts)
        first, end = rows_to_read(start, stop)
        index = tf.range(begin + first, begin + end)
        if seed is not None:
            key = tf.stack([tf.constant(seed, tf.int64), epoch + first_epoch])
            index = tf.random.experimental.index_shuffle(index, key, tf.constant(total - 1, tf.int64))
        index = tf.ensure_shape(index, [static_rows])
        labels = tf.gather(y, index)
        data = tf.gather(x, index), tf.one_hot(labels, NUM_CLASSES) if one_hot else labels
        return data if part is None else LocalBatch(data, stop - start, size)

    # If repeated, use a counter, not a range, so that TensorFlow knows that the cardinality is infinite.
    numbers = tf.data.Dataset.counter(dtype=tf.int64) if repeated else tf.data.Dataset.range(steps_per_epoch)
    if steps is not None:
        numbers = numbers.take(steps)
    numbers = numbers.shard(every[1], every[0]).skip(skip)
    data = numbers.map(tf.autograph.experimental.do_not_convert(gather)).prefetch(tf.data.AUTOTUNE)
    return without_autotuning(data)


def shard_description(
    rows: int, global_batch: int, worker: int, workers: int, *, replicas_per_worker: int = 1
) -> str:
    """Describe in one line which rows this worker reads, for ``--verbose``.

    Parameters
    ----------
    rows : int
        Rows of the training set.
    global_batch : int
        Rows of one step on all replicas together.
    worker, workers : int
        Index of the worker, from 0, and number of workers.
    replicas_per_worker : int
        Number of replicas (devices) of each worker.

    Examples
    --------
    >>> shard_description(10_000, 128, worker=1, workers=2)
    'worker 1 of 2 reads rows 64-127 of each global batch of 128, and rows 8-15 of the last one of 16'
    """
    replicas = workers * replicas_per_worker

    def span(of: int) -> str:
        start = part_of(of, worker * replicas_per_worker, replicas)[0]
        stop = part_of(of, (worker + 1) * replicas_per_worker - 1, replicas)[1]
        return f"rows {start}-{stop - 1}" if stop > start else "no rows"

    text = f"worker {worker} of {workers} reads {span(global_batch)} of each global batch of {global_batch}"
    last = rows % global_batch
    return f"{text}, and {span(last)} of the last one of {last}" if last else text


def _check(
    x: npt.NDArray[Any], y: npt.NDArray[Any], global_batch: int, strategy: Any, drop_remainder: bool
) -> None:
    x_rows, y_rows = np.shape(x)[0], np.shape(y)[0]
    replicas = strategy.num_replicas_in_sync if strategy is not None else 1
    if x_rows != y_rows:
        raise DataError(
            "There must be one label for each image.",
            found=f"{x_rows} images and {y_rows} labels",
            path=None,
            reason="lengths-differ",
        )
    if x_rows == 0:
        raise DataError("The training set has no rows.", path=None, reason="empty")
    if not suits_replicas(global_batch, strategy):
        raise DataError(
            f"The global batch must be a positive multiple of the number of replicas, {replicas}.",
            found=str(global_batch),
            fix="pass a batch size per replica, times the number of replicas",
            path=None,
            reason="batch-size",
        )
    if drop_remainder and global_batch > x_rows:
        raise DataError(
            "With drop_remainder the global batch must not be larger than the training set.",
            found=f"a global batch of {global_batch} for {x_rows} rows",
            path=None,
            reason="batch-size",
        )

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

import zlib
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
    import tensorflow as tf

NUM_CLASSES = 10


def batches(
    x: npt.NDArray[np.generic],
    y: npt.NDArray[np.generic],
    batch_size: int,
    *,
    seed: int,
    shuffle: bool = True,
    strategy: tf.distribute.Strategy | None = None,
    steps: int | None = None,
    repeated: bool = False,
    drop_remainder: bool = False,
    one_hot: bool = False,
    first_epoch: int = 0,
) -> tf.data.Dataset:
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
    import_tensorflow()
    import tensorflow as tf

    images, labels = tf.convert_to_tensor(x), tf.convert_to_tensor(y)
    total = int(images.shape[0])
    steps_per_epoch = steps_in_epoch(total, batch_size, drop_remainder=drop_remainder)
    ragged = not drop_remainder and total % batch_size != 0

    def pipeline(
        part: int | None = None, parts: int = 1, *, every: tuple[int, int] = (0, 1), skip: int = 0
    ) -> tf.data.Dataset:
        """Make the data set; see :class:`~tfmuster.keras_compat.rows.WorkerPipeline`."""
        static_rows = None if ragged or batch_size % parts else batch_size // parts

        def gather(step: tf.Tensor) -> Any:
            epoch, step_of_epoch = step // steps_per_epoch, step % steps_per_epoch
            begin = step_of_epoch * batch_size
            size = tf.minimum(total - begin, batch_size)
            start, stop = part_of(size, part or 0, parts)
            first, end = rows_to_read(start, stop)
            index = tf.range(begin + first, begin + end)
            if shuffle:
                key = tf.stack([tf.constant(seed, tf.int64), epoch + first_epoch])
                index = tf.random.experimental.index_shuffle(index, key, tf.constant(total - 1, tf.int64))
            index = tf.ensure_shape(index, [static_rows])
            y_rows = tf.gather(labels, index)
            data = tf.gather(images, index), tf.one_hot(y_rows, NUM_CLASSES) if one_hot else y_rows
            return data if part is None else LocalBatch(data, stop - start, size)

        # If repeated, use a counter, not a range, so that TensorFlow knows that the cardinality is infinite.
        dataset = tf.data.Dataset
        numbers = dataset.counter(dtype=tf.int64) if repeated else dataset.range(steps_per_epoch)
        if steps is not None:
            numbers = numbers.take(steps)
        numbers = numbers.shard(every[1], every[0]).skip(skip)
        gathered = numbers.map(tf.autograph.experimental.do_not_convert(gather))
        return without_autotuning(gathered.prefetch(tf.data.AUTOTUNE))

    whole = pipeline()
    order = f"shuffled by seed {seed}, from epoch {first_epoch}" if shuffle else "in order"
    about = f"of {batch_size} of {total} rows {order}"
    # Not of the tensor: a parameter server's data function is traced, where a tensor has no values.
    checksum = zlib.crc32(np.asarray(y).tobytes())
    attach_pipeline(whole, pipeline, {"batches": about, "labels": f"{checksum:08x}"})
    return whole


def _check(
    x: npt.NDArray[np.generic],
    y: npt.NDArray[np.generic],
    global_batch: int,
    strategy: tf.distribute.Strategy | None,
    drop_remainder: bool,
) -> None:
    if not (np.shape(x) and np.shape(y)):
        raise DataError(
            "Data and labels must be arrays with a row for each example.",
            found=f"shapes {np.shape(x)} and {np.shape(y)}",
            reason="shape",
        )
    x_rows, y_rows = np.shape(x)[0], np.shape(y)[0]
    replicas = strategy.num_replicas_in_sync if strategy is not None else 1
    if x_rows != y_rows:
        raise DataError(
            "There must be one label for each row of the data.",
            found=f"{x_rows} rows and {y_rows} labels",
            reason="lengths-differ",
        )
    if x_rows == 0:
        raise DataError("The training set has no rows.", reason="empty")
    if not suits_replicas(global_batch, strategy):
        raise DataError(
            f"The global batch must be a positive multiple of the number of replicas, {replicas}.",
            found=str(global_batch),
            fix="pass a batch size per replica, times the number of replicas",
            reason="batch-size",
        )
    if drop_remainder and global_batch > x_rows:
        raise DataError(
            "With drop_remainder the global batch must not be larger than the training set.",
            found=f"a global batch of {global_batch} for {x_rows} rows",
            reason="batch-size",
        )

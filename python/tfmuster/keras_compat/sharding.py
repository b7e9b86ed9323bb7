"""How a training set reaches the workers: global batches, and each worker's own rows of them.

A *global batch* is what one training step consumes on all replicas together. Every epoch is one full,
seeded permutation of the rows, cut in order into global batches; worker *w* gathers only its own
contiguous rows of each. So the workers' parts, laid end to end, are the batches of a single process,
byte for byte, and no worker reads what another one trains on.

The permutation is computed row by row (``tf.random.experimental.index_shuffle``, a block cipher on the
index), so a batch is a pure function of seed, epoch and step: there is no shuffle buffer to fill, and an
iterator that something opens and drops on the side does not disturb the order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import DataError
from ..system.tensorflow_import import import_tensorflow

if TYPE_CHECKING:
    import numpy.typing as npt

NUM_CLASSES = 10


class LocalBatch(NamedTuple):
    """One worker's rows of a global batch.

    Where a last batch has fewer rows than there are workers, some workers have none. They read one row all
    the same, which must count for nothing: TensorFlow's CPU kernels for convolutions get the shape of an
    empty batch wrong (seen with 2.21).

    Attributes
    ----------
    data
        Tensors of one worker's rows; never empty.
    rows : scalar int64 tensor
        How many of them count: all, or 0.
    global_rows : scalar int64 tensor
        Rows of the global batch.
    """

    data: Any
    rows: Any
    global_rows: Any


def rows_to_read(start: Any, stop: Any) -> tuple[Any, Any]:
    """``[start, stop)`` of :func:`part_of`, or the row before it where it is empty."""
    import tensorflow as tf

    return tf.where(stop > start, start, tf.maximum(start - 1, 0)), tf.maximum(stop, 1)


def part_of(rows: Any, part: Any, parts: int) -> tuple[Any, Any]:
    """The rows ``[start, stop)`` of a batch of ``rows`` rows that part number ``part`` of ``parts`` gets.

    Contiguous, in order, and as even as can be: where it does not divide, some parts get one row more.
    (TensorFlow's own DATA auto-shard fills the first workers of a partial batch and leaves the last ones
    without rows; an even split keeps the mean over replicas the mean over rows.)

    Parameters
    ----------
    rows : int or scalar integer tensor
        Rows of the global batch.
    part : int or scalar integer tensor
        Which part, from 0.
    parts : int
        Of how many.

    Returns
    -------
    (start, stop)
        Of the type of the arguments. Empty only where there are fewer rows than parts.
    """
    return rows * part // parts, rows * (part + 1) // parts


def steps_in_epoch(rows: int, global_batch: int, *, drop_remainder: bool = False) -> int:
    """How many global batches one pass over ``rows`` rows makes."""
    return rows // global_batch if drop_remainder else -(-rows // global_batch)


def batches(
    x: npt.NDArray[Any],
    y: npt.NDArray[Any],
    global_batch: int,
    *,
    seed: int,
    shuffle: bool = True,
    strategy: Any = None,
    steps: int | None = None,
    repeat: bool = False,
    drop_remainder: bool = False,
    one_hot: bool = False,
    first_epoch: int = 0,
) -> Any:
    """An input pipeline for ``model.fit`` and for custom loops, the same on every number of workers.

    Parameters
    ----------
    x : array, shape (n, ...)
        Images. They stay as they are (uint8 for digits) until they are on the device.
    y : array of integers, shape (n,)
        Labels.
    global_batch : int
        Rows of one step on all replicas together.
    seed : int
        Chooses the permutations. Must be the same on every worker.
    shuffle : bool
        A new full permutation in each epoch; ``False`` keeps the order of ``x``.
    strategy : tf.distribute.Strategy, optional
        Checks that the global batch divides over its replicas.
    steps : int, optional
        End after this many global batches. More than one pass holds needs ``repeat=True``.
    repeat : bool
        Go on for ever, epoch after epoch, each with its own permutation. Best for training, with
        ``fit(steps_per_epoch=...)``: a data set that is known to have no end spares the workers one
        agreement per step on whether there is more. Without it each iteration gives the permutation of
        ``first_epoch``.
    drop_remainder : bool
        Leave out the last, partial batch of each epoch. Otherwise it is split evenly over the replicas
        (see :func:`part_of`).
    one_hot : bool
        Labels as float32 of shape (batch, 10), for ``categorical_crossentropy``.
    first_epoch : int
        Number of the first epoch, for a training that is resumed: its permutation is that of the same epoch
        in an uninterrupted run.

    Returns
    -------
    tf.data.Dataset
        Of pairs (images, labels), one for each global batch; the arrays are held in memory once, as one
        tensor. Pass it to ``fit`` under any strategy. Under several workers ``fit`` asks it for the rows of
        this worker only (:mod:`tfmuster.keras_compat`); in a custom loop,
        ``strategy.experimental_distribute_dataset`` distributes it.

    Raises
    ------
    DataError
        Lengths differ, no rows, or a global batch that is not positive, is too large for
        ``drop_remainder``, or does not divide over the replicas.
    """
    _check(x, y, global_batch, strategy, drop_remainder)
    tf = import_tensorflow()
    rows = tf.convert_to_tensor(x), tf.convert_to_tensor(y)

    def pipeline(
        part: int | None = None, parts: int = 1, *, every: tuple[int, int] = (0, 1), skip: int = 0
    ) -> Any:
        return _pipeline(
            *rows,
            global_batch,
            part,
            parts,
            seed=seed if shuffle else None,
            steps=steps,
            repeat=repeat,
            drop_remainder=drop_remainder,
            one_hot=one_hot,
            first_epoch=first_epoch,
            every=every,
            skip=skip,
        )

    whole = pipeline()
    # What keras_compat and parameter_server ask for under several workers; any other reader gets the global
    # batches.
    whole.tfmuster_parts = pipeline
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
    repeat: bool,
    drop_remainder: bool,
    one_hot: bool,
    first_epoch: int,
    every: tuple[int, int],
    skip: int,
) -> Any:
    """The global batches; or, with a ``part`` of ``parts``, a :class:`Part` of each.

    Of ``every=(i, n)`` only each n-th, beginning with the i-th; without the first ``skip`` of what is left.
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

    # A counter, not a range, for repeat: its cardinality is known to be infinite, which TensorFlow looks at.
    numbers = tf.data.Dataset.counter(dtype=tf.int64) if repeat else tf.data.Dataset.range(steps_per_epoch)
    if steps is not None:
        numbers = numbers.take(steps)
    numbers = numbers.shard(every[1], every[0]).skip(skip)
    data = numbers.map(tf.autograph.experimental.do_not_convert(gather)).prefetch(tf.data.AUTOTUNE)
    return without_autotuning(data)


def without_autotuning(dataset: Any) -> Any:
    """The data set without tf.data's autotuning thread, unless its options ask for that.

    The thread sleeps for 10 ms, then 20, 40 and so on up to a minute, and who drops the iterator, as ``fit``
    does at its end, waits for it: a cancellation wakes it before the flag that it looks at is set
    (CancellationManager::StartCancel of TensorFlow 2.21), so it may go to sleep again. Without the thread,
    AUTOTUNE means as many parallel calls as there are cores.
    """
    import tensorflow as tf

    if not isinstance(dataset, tf.data.Dataset) or dataset.options().autotune.enabled is not None:
        return dataset
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


def shard_description(
    rows: int, global_batch: int, worker: int, workers: int, *, replicas_per_worker: int = 1
) -> str:
    """One line that says which rows this worker reads, for ``--verbose``.

    Parameters
    ----------
    rows : int
        Rows of the training set.
    global_batch : int
        Rows of one step on all replicas together.
    worker, workers : int
        Which worker, from 0, and of how many.
    replicas_per_worker : int
        Replicas (devices) of each worker.

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
    if global_batch < 1 or global_batch % replicas:
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

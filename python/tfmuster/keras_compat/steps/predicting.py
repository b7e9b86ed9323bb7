"""Run ``predict`` on several workers: each predicts its own rows, and all receive all predictions.

If each worker has data of its own (:mod:`.worker_data`), it keeps its predictions.

Gathering the predictions of a batch takes longer than computing them. So they are gathered and put in order
once, at the end. They are gathered batch by batch only if a callback reads each batch's predictions.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import DataError
from ...system.activity import ACTIVITY
from .. import seams
from ..agreement.comparison import agree_on_call, agree_on_predictions
from ..agreement.documents import Call
from ..process import multi_worker, worker_of
from ..rows import (
    LocalBatch,
    Tensors,
    absent_to_none,
    as_tensors,
    local_batch,
    part_of,
    rows_of,
)
from ..step_rows import rows_of_step
from ..sums.collectives import gather_rows
from .callbacks import overrides
from .tracing import compiled

if TYPE_CHECKING:
    import keras
    import numpy.typing as npt
    import tensorflow as tf

_BATCH_METHODS = ("on_predict_batch_begin", "on_predict_batch_end")

#: For models whose predictions are gathered at the end: the rows of each global batch so far.
_sizes: weakref.WeakKeyDictionary[keras.Model, list[int]] = weakref.WeakKeyDictionary()


def patch_predict() -> None:
    """Replace the function with which ``predict`` and ``predict_on_batch`` compute under several workers."""
    import tensorflow as tf

    stock_make = seams.MAKE_PREDICT.get()

    @functools.wraps(stock_make)
    def make_predict(self: keras.Model, force: bool = False) -> Callable[[list[object]], Tensors]:
        if not multi_worker(seams.MODEL_STRATEGY.of(self)):
            return stock_make(self, force=force)  # type: ignore[no-any-return]
        if (call := Call.of(self)) is not None:
            agree_on_call(self, call.epochs)
        if self.predict_function is None or force:
            stock_make(self, force=True)
            stock = self.predict_function
            local, of_all = _predict_function(self), _predict_function(self, gather=True)
            own = _predict_function(self, together=False)

            def predict(data: list[object]) -> Tensors:
                if any(isinstance(value, tf.distribute.DistributedValues) for value in tf.nest.flatten(data)):
                    return stock(data)
                parts = [part for part in data if isinstance(part, LocalBatch)]
                sizes = [int(part.global_rows) for part in parts]
                only_of_this_worker = len(parts) == len(data) and all(size < 0 for size in sizes)
                gathered_later = _sizes.get(self)
                if only_of_this_worker:
                    return own(data)
                if gathered_later is None or len(parts) < len(data):
                    with ACTIVITY.execution():
                        return of_all(data)
                gathered_later.extend(sizes)
                return local(data)

            self.predict_function = predict
        return self.predict_function  # type: ignore[no-any-return]

    seams.MAKE_PREDICT.replace(make_predict)


def predict_on_all(model: keras.Model, callbacks: Sequence[object], predict: Callable[[], object]) -> object:
    """Return what ``predict``, Keras's own, returns; on several workers, the predictions of all."""
    if not multi_worker(seams.MODEL_STRATEGY.of(model)):
        return predict()
    if not any(map(_sees_batches, callbacks)):
        _sizes[model] = []
    try:
        predicted = predict()
    finally:
        rows = _sizes.pop(model, [])
    if not rows:
        return predicted
    agree_on_predictions(model, rows)
    with ACTIVITY.execution():
        return _gathered(seams.MODEL_STRATEGY.of(model), predicted, rows)


def _sees_batches(callback: object) -> bool:
    import keras

    return not isinstance(callback, keras.callbacks.ProgbarLogger) and overrides(callback, _BATCH_METHODS)


def _predict_function(
    model: keras.Model, *, gather: bool = False, together: bool = True
) -> Callable[[list[object]], Tensors]:
    """Make the function that ``predict`` calls with a list of local or global batches.

    It returns this worker's predictions, or with ``gather`` those of all workers. Without ``together``, other
    workers may have other numbers of batches.
    """
    import tensorflow as tf

    strategy = model.distribute_strategy
    worker, workers = worker_of(strategy)

    def replica_step(part: LocalBatch) -> Tensors:
        # Nobody counts all rows of data that only one worker has.
        unknown = part.global_rows < 0
        first, _ = part_of(part.global_rows, worker, workers)
        first = tf.where(unknown, part.rows * worker, first)
        part = part._replace(global_rows=tf.where(unknown, part.rows * workers, part.global_rows))
        with rows_of_step(part, first, together=together), compiled(model):
            outputs = model.predict_step(absent_to_none(part.data))
        read = rows_of(part.data)

        def without_placeholder(tensor: tf.Tensor) -> tf.Tensor:
            # A worker without rows has read a placeholder row. A model may give several rows for one.
            rows = tensor.nrows() if isinstance(tensor, tf.RaggedTensor) else tf.shape(tensor, tf.int64)[0]
            return tensor[: rows * part.rows // read]

        return tf.nest.map_structure(without_placeholder, outputs)  # type: ignore[no-any-return]

    @tf.autograph.experimental.do_not_convert
    def predict(parts: list[LocalBatch]) -> Tensors:
        outputs = [strategy.run(replica_step, args=(part,)) for part in parts]
        if gather:
            leaves = [gather_rows(strategy, tf.nest.flatten(output)) for output in outputs]
            outputs = list(map(tf.nest.pack_sequence_as, outputs, leaves))
        return tf.nest.map_structure(lambda *batches: tf.concat(batches, axis=0), *outputs)

    if not model.run_eagerly:
        predict = tf.function(predict, reduce_retracing=True)

    def local(batch: object) -> LocalBatch:
        return batch if isinstance(batch, LocalBatch) else local_batch(as_tensors(batch), worker, workers)

    return lambda data: predict(list(map(local, data)))


def _gathered(strategy: tf.distribute.Strategy, predicted: object, sizes: list[int]) -> object:
    """Return all workers' predictions in row order; ``sizes`` are the rows of each global batch."""
    import tensorflow as tf

    _, workers = worker_of(strategy)
    bounds = np.array([[part_of(rows, part, workers) for rows in sizes] for part in range(workers)])
    counts = bounds[..., 1] - bounds[..., 0]
    # Rows are gathered worker by worker; in the order of batches, those of a batch are in order, too.
    batches = np.repeat(np.tile(np.arange(len(sizes)), workers), counts.ravel())
    order = np.argsort(batches, kind="stable")
    rows = counts.sum(axis=1)
    leaves = tf.nest.flatten(predicted)
    described = [[int(leaf.shape[0]), isinstance(leaf, tf.RaggedTensor)] for leaf in leaves]
    of_workers = _gather(strategy, np.array([described]))
    gathered = []
    for number, leaf in enumerate(leaves):
        factor = _rows_for_one(of_workers[:, number, 0], rows)
        of_leaf = (order[:, None] * factor + np.arange(factor)).ravel()
        if of_workers[:, number, 1].any():
            gathered.append(tf.gather(_gather_ragged(strategy, leaf), of_leaf))
        else:
            gathered.append(_gather(strategy, leaf)[of_leaf])
    return tf.nest.pack_sequence_as(predicted, gathered)


def _rows_for_one(predicted: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]) -> int:
    """Return how many rows each row has given, by the numbers of all workers.

    Raise a DataError if it is no whole number, or not the same for all workers.
    """
    factor = int(predicted.sum()) // max(int(rows.sum()), 1)
    if (predicted != factor * rows).any():
        raise DataError(
            "predict on several workers needs a model that gives the same number of rows for each row.",
            found=f"{predicted.tolist()} rows for {rows.tolist()} rows of the workers",
            fix="return one row of predictions for each row of data",
            reason="prediction-rows",
        )
    return factor


def _gather(strategy: tf.distribute.Strategy, array: npt.NDArray[np.generic] | tf.Tensor) -> Any:
    """Concatenate the rows of all workers' arrays in worker order."""
    import tensorflow as tf

    if isinstance(array, np.ndarray) and array.dtype.hasobject:
        return _gather_texts(strategy, array)
    return gather_rows(strategy, [tf.convert_to_tensor(array)])[0].numpy()


def _gather_texts(
    strategy: tf.distribute.Strategy, array: npt.NDArray[np.generic]
) -> npt.NDArray[np.generic]:
    """Concatenate arrays of bytes, which TensorFlow can't gather, as their lengths and their letters."""
    texts = array.ravel().tolist()
    lengths = _gather(strategy, np.array([len(text) for text in texts], np.int32))
    letters = _gather(strategy, np.frombuffer(b"".join(texts), np.uint8)).tobytes()
    ends = np.cumsum(lengths)
    gathered = np.empty(len(ends), object)
    gathered[:] = [letters[end - length : end] for end, length in zip(ends, lengths, strict=True)]
    return gathered.reshape(-1, *array.shape[1:])


def _gather_ragged(strategy: tf.distribute.Strategy, rows: tf.Tensor | tf.RaggedTensor) -> tf.RaggedTensor:
    """Concatenate rows of different lengths."""
    import tensorflow as tf

    if not isinstance(rows, tf.RaggedTensor):
        rows = tf.RaggedTensor.from_tensor(rows)
    return tf.RaggedTensor.from_nested_row_lengths(
        _gather(strategy, rows.flat_values),
        [_gather(strategy, lengths) for lengths in rows.nested_row_lengths()],
    )

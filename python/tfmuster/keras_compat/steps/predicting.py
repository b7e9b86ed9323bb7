"""Run ``predict`` on several workers: each predicts its own rows, and all receive all predictions.

If each worker has data of its own (:mod:`.worker_data`), it keeps its predictions.

Gathering the predictions of a batch takes longer than computing them. So they are gathered and put in order
once, at the end. They are gathered batch by batch only if a callback reads each batch's predictions.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from ...errors import DataError
from ...system.activity import ACTIVITY
from .. import seams
from ..agreement.calls import Call
from ..agreement.comparison import agree_on_call, agree_on_predictions
from ..data.worker_batches import predicting
from ..process import multi_worker, worker_of
from ..rows import (
    LocalBatch,
    PlaceOfRows,
    absent_to_none,
    as_tensors,
    local_batch,
    part_of,
    rows_of,
    rows_of_step,
    traced_rows,
)
from ..sums.collectives import gather_rows
from .callbacks import overrides
from .tracing import compiled

_BATCH_METHODS = ("on_predict_batch_begin", "on_predict_batch_end")

#: For models whose predictions are gathered at the end: the rows of each global batch so far.
_sizes: weakref.WeakKeyDictionary[Any, list[int]] = weakref.WeakKeyDictionary()


def patch_predict() -> None:
    """Replace the function with which ``predict`` and ``predict_on_batch`` compute under several workers."""
    import tensorflow as tf

    stock_make = seams.MAKE_PREDICT.get()

    @functools.wraps(stock_make)
    def make_predict(self: Any, force: bool = False) -> Any:
        if not multi_worker(seams.MODEL_STRATEGY.of(self)):
            return stock_make(self, force=force)
        if (call := Call.of(self)) is not None:
            agree_on_call(self, call.epochs)
        if self.predict_function is None or force:
            stock_make(self, force=True)
            stock = self.predict_function
            own, of_all = _predict_function(self), _predict_function(self, all=True)

            def predict(data: list[Any]) -> Any:
                values = tf.nest.flatten(data)
                if any(isinstance(value, tf.distribute.DistributedValues) for value in values):
                    return stock(data)
                seen = _sizes.get(self)
                if all(isinstance(each, LocalBatch) and int(each.global_rows) < 0 for each in data):
                    return own(data)
                if seen is None or not all(isinstance(each, LocalBatch) for each in data):
                    with ACTIVITY.execution():
                        return of_all(data)
                seen.extend(int(part.global_rows) for part in data)
                return own(data)

            self.predict_function = predict
        return self.predict_function

    seams.MAKE_PREDICT.replace(make_predict)


def predict_on_all(model: Any, callbacks: list[Any], predict: Callable[[], Any]) -> Any:
    """Return what ``predict`` returns; on several workers, the predictions of all of them.

    Parameters
    ----------
    model : keras.Model
        The model that predicts.
    callbacks : list
        The callbacks of the call.
    predict : callable
        Calls Keras's own method.
    """
    if not multi_worker(seams.MODEL_STRATEGY.of(model)):
        return predict()
    if not any(_sees_batches(each) for each in callbacks):
        _sizes[model] = []
    try:
        with predicting():
            predicted = predict()
    finally:
        rows = _sizes.pop(model, [])
    if not rows:
        return predicted
    agree_on_predictions(model, rows)
    with ACTIVITY.execution():
        return _gathered(seams.MODEL_STRATEGY.of(model), predicted, rows)


def _sees_batches(callback: Any) -> bool:
    import keras

    return not isinstance(callback, keras.callbacks.ProgbarLogger) and overrides(callback, _BATCH_METHODS)


def _predict_function(trainer: Any, *, all: bool = False) -> Callable[[list[Any]], Any]:
    """Make the function that ``predict`` calls with a list of local or global batches.

    It returns this worker's predictions, or with ``all`` those of all workers.
    """
    import tensorflow as tf

    strategy = trainer.distribute_strategy
    worker, workers = worker_of(strategy)

    def replica_step(part: LocalBatch) -> Any:
        # Nobody counts all rows of data of which each worker has its own.
        unknown = part.global_rows < 0
        place = PlaceOfRows(
            part.rows,
            tf.where(unknown, part.rows * workers, part.global_rows),
            tf.where(unknown, part.rows * worker, part_of(part.global_rows, worker, workers)[0]),
            traced_rows(part.data),
        )
        with rows_of_step(place), compiled(trainer):
            outputs = trainer.predict_step(absent_to_none(part.data))
        read = rows_of(part.data)

        def of_own_rows(tensor: Any) -> Any:
            # A worker without rows has read a placeholder row. A model may give several rows for one.
            rows = tensor.nrows() if isinstance(tensor, tf.RaggedTensor) else tf.shape(tensor, tf.int64)[0]
            return tensor[: rows * part.rows // read]

        return tf.nest.map_structure(of_own_rows, outputs)

    @tf.autograph.experimental.do_not_convert
    def predict(parts: list[LocalBatch]) -> Any:
        outputs = [strategy.run(replica_step, args=(part,)) for part in parts]
        if all:
            leaves = [gather_rows(strategy, tf.nest.flatten(each)) for each in outputs]
            outputs = list(map(tf.nest.pack_sequence_as, outputs, leaves))
        return tf.nest.map_structure(lambda *batches: tf.concat(batches, axis=0), *outputs)

    if not trainer.run_eagerly:
        predict = tf.function(predict, reduce_retracing=True)

    def function(data: list[Any]) -> Any:
        worker = worker_of(strategy)
        return predict(
            [
                each if isinstance(each, LocalBatch) else local_batch(as_tensors(each), *worker)
                for each in data
            ]
        )

    return function


def _gathered(strategy: Any, predicted: Any, sizes: list[int]) -> Any:
    """Return all workers' predictions in row order; ``sizes`` are the rows of each global batch."""
    import tensorflow as tf

    _, workers = worker_of(strategy)
    bounds = np.array([[part_of(rows, each, workers) for rows in sizes] for each in range(workers)])
    of_worker = bounds[..., 1] - bounds[..., 0]
    first = np.concatenate([[0], np.cumsum(of_worker)[:-1]]).reshape(of_worker.shape)
    order = np.concatenate(
        [
            np.arange(first[worker, batch], first[worker, batch] + of_worker[worker, batch])
            for batch in range(len(sizes))
            for worker in range(workers)
        ]
    )
    rows = of_worker.sum(axis=1)
    leaves = tf.nest.flatten(predicted)
    known = [[int(leaf.shape[0]), isinstance(leaf, tf.RaggedTensor)] for leaf in leaves]
    everyone = _gather(strategy, np.array([known]))
    gathered = []
    for number, leaf in enumerate(leaves):
        factor = _rows_for_one(everyone[:, number, 0], rows)
        of_leaf = (order[:, None] * factor + np.arange(factor)).ravel()
        if everyone[:, number, 1].any():
            gathered.append(tf.gather(_gather_ragged(strategy, leaf), of_leaf))
        else:
            gathered.append(_gather(strategy, leaf)[of_leaf])
    return tf.nest.pack_sequence_as(predicted, gathered)


def _rows_for_one(predicted: Any, rows: Any) -> int:
    """Return how many rows each row has given; ``predicted`` and ``rows`` are the numbers of all workers.

    Raises
    ------
    DataError
        It is no whole number, or not the same for all workers, so that nobody knows which row gave what.
    """
    factor = int(predicted.sum()) // max(int(rows.sum()), 1)
    if (predicted != factor * rows).any():
        raise DataError(
            "predict on several workers needs a model that gives the same number of rows for each row.",
            found=f"{predicted.tolist()} rows for {rows.tolist()} rows of the workers",
            fix="return one row of predictions for each row of data",
            path=None,
            reason="prediction-rows",
        )
    return factor


def _gather(strategy: Any, array: Any) -> Any:
    """Concatenate the rows of all workers' arrays in worker order."""
    import tensorflow as tf

    if isinstance(array, np.ndarray) and array.dtype.hasobject:
        return _gather_texts(strategy, array)
    return gather_rows(strategy, [tf.convert_to_tensor(array)])[0].numpy()


def _gather_texts(strategy: Any, array: Any) -> Any:
    """Concatenate arrays of bytes, which TensorFlow can't gather, as their lengths and their letters."""
    texts = array.ravel().tolist()
    lengths = _gather(strategy, np.array([len(text) for text in texts], np.int32))
    letters = _gather(strategy, np.frombuffer(b"".join(texts), np.uint8)).tobytes()
    ends = np.cumsum(lengths)
    found = np.empty(len(ends), object)
    found[:] = [letters[end - length : end] for end, length in zip(ends, lengths, strict=True)]
    return found.reshape(-1, *array.shape[1:])


def _gather_ragged(strategy: Any, rows: Any) -> Any:
    """Concatenate rows of different lengths."""
    import tensorflow as tf

    if not isinstance(rows, tf.RaggedTensor):
        rows = tf.RaggedTensor.from_tensor(rows)
    return tf.RaggedTensor.from_nested_row_lengths(
        _gather(strategy, rows.flat_values),
        [_gather(strategy, lengths) for lengths in rows.nested_row_lengths()],
    )

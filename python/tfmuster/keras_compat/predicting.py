"""Run ``predict`` on several workers: each predicts its own rows, and all receive all predictions.

If each worker has data of its own (:mod:`.own_rows`), it keeps its predictions.

Gathering the predictions of a batch takes longer than computing them. So they are gathered and put in order
once, at the end. They are gathered batch by batch only if a callback reads each batch's predictions.
"""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from ..system.activity import ACTIVITY
from .agreement import Call, agree_on_call, agree_on_predictions
from .execution import absent_to_none, as_tensors, local_batch
from .own_batches import predicting
from .sharding import LocalBatch, part_of
from .steps_per_execution import given_callbacks, overrides
from .strategy_info import multi_worker, worker_of

_BATCH_METHODS = ("on_predict_batch_begin", "on_predict_batch_end")


def patch_predict(trainer: Any) -> None:
    """Replace what ``predict`` and ``predict_on_batch`` do under several workers."""
    import tensorflow as tf

    stock_make, stock_predict = trainer.make_predict_function, trainer.predict
    #: For models whose predictions are gathered at the end: the rows of each global batch so far.
    sizes: weakref.WeakKeyDictionary[Any, list[int]] = weakref.WeakKeyDictionary()

    @functools.wraps(stock_make)
    def make_predict(self: Any, force: bool = False) -> Any:
        if not multi_worker(self._distribute_strategy):
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
                seen = sizes.get(self)
                if all(isinstance(each, LocalBatch) and int(each.global_rows) < 0 for each in data):
                    return own(data)
                if seen is None or not all(isinstance(each, LocalBatch) for each in data):
                    with ACTIVITY.execution():
                        return of_all(data)
                seen.extend(int(part.global_rows) for part in data)
                return own(data)

            self.predict_function = predict
        return self.predict_function

    signature = inspect.signature(stock_predict)

    @functools.wraps(stock_predict)
    def predict(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not multi_worker(self._distribute_strategy):
            return stock_predict(self, *args, **kwargs)
        callbacks = given_callbacks(signature, self, args, kwargs)
        if not any(_sees_batches(each) for each in callbacks):
            sizes[self] = []
        try:
            with predicting():
                predicted = stock_predict(self, *args, **kwargs)
        finally:
            rows = sizes.pop(self, [])
        if not rows:
            return predicted
        agree_on_predictions(self, rows)
        with ACTIVITY.execution():
            return _gathered(self._distribute_strategy, predicted, rows)

    trainer.make_predict_function, trainer.predict = make_predict, predict


def _sees_batches(callback: Any) -> bool:
    import keras

    return not isinstance(callback, keras.callbacks.ProgbarLogger) and overrides(callback, _BATCH_METHODS)


def _predict_function(trainer: Any, *, all: bool = False) -> Callable[[list[Any]], Any]:
    """Make the function that ``predict`` calls with a list of local or global batches.

    It returns this worker's predictions, or with ``all`` those of all workers.
    """
    import tensorflow as tf

    strategy = trainer.distribute_strategy

    def replica_step(part: LocalBatch) -> Any:
        outputs = trainer.predict_step(absent_to_none(part.data))
        return tf.nest.map_structure(lambda t: t[: part.rows], outputs)

    @tf.autograph.experimental.do_not_convert
    def predict(parts: list[LocalBatch]) -> Any:
        outputs = [strategy.run(replica_step, args=(part,)) for part in parts]
        if all:
            outputs = [tf.nest.map_structure(lambda t: strategy.gather(t, axis=0), each) for each in outputs]
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
    bounds = np.array([[part_of(rows, worker, workers) for rows in sizes] for worker in range(workers)])
    of_worker = bounds[..., 1] - bounds[..., 0]
    first = np.concatenate([[0], np.cumsum(of_worker)[:-1]]).reshape(of_worker.shape)
    order = np.concatenate(
        [
            np.arange(first[worker, batch], first[worker, batch] + of_worker[worker, batch])
            for batch in range(len(sizes))
            for worker in range(workers)
        ]
    )
    return tf.nest.map_structure(lambda array: _gather(strategy, array)[order], predicted)


def _gather(strategy: Any, array: Any) -> Any:
    """Concatenate the rows of all workers' arrays in worker order."""
    import tensorflow as tf

    tensor = tf.convert_to_tensor(array)
    # TensorFlow can't gather these types; the wider ones hold the same values.
    wider = {tf.bfloat16: tf.float32} | dict.fromkeys((tf.bool, tf.int8, tf.uint8, tf.int16), tf.int32)
    gathered = strategy.gather(tf.cast(tensor, wider.get(tensor.dtype, tensor.dtype)), axis=0)
    return tf.cast(gathered, tensor.dtype).numpy()

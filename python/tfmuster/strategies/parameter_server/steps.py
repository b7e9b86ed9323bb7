"""Trace, on the coordinator, the functions that workers run to compute and apply gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...keras_compat.rows import LocalBatch
from .weights import PlacedWeights


@dataclass
class Outcome:
    """The result of one step of a worker.

    Attributes
    ----------
    rows : int
        Rows of the worker's batch.
    staleness : int
        Number of updates that others applied between the worker's read of the weights and its update.
    metrics : list of numpy.ndarray
        Values to add to each of the model's metric variables.
    others : list of numpy.ndarray
        Values to add to each of the model's other weights. Empty if the worker has already added them.
    """

    rows: int
    staleness: int
    metrics: list[Any]
    others: list[Any]


class Steps:
    """Traced functions for one model.

    Parameters
    ----------
    model : keras.Model
        Built and compiled.
    placed : PlacedWeights
        Weights of the model on the parameter servers.
    iterator_spec : tf.data.IteratorSpec
        Type of a worker's iterator.
    workers : int
        Number of workers.
    """

    def __init__(self, model: Any, placed: PlacedWeights, iterator_spec: Any, workers: int) -> None:
        import tensorflow as tf

        self._model, self._placed, self._workers = model, placed, workers
        self._metrics = [variable for metric in model.metrics for variable in metric.variables]
        self._spec = (iterator_spec, tf.TensorSpec([], tf.int32))
        self._rows: list[Any] = []

    # ---- asynchronous -------------------------------------------------------------------------------------

    def trace_update(self) -> Any:
        """Trace a function of (iterator, worker) that reads the weights, computes, and updates them."""
        import tensorflow as tf

        placed = self._placed

        def step(iterator: Any, worker: Any) -> Any:
            batch = next(iterator)
            seen = placed.updates.read_value()
            with tf.control_dependencies([seen]):
                gradients, rows, metrics, others = self._gradients(batch, worker)
            with tf.control_dependencies([*gradients, *others]):
                late = placed.updates.read_value() - seen
                placed.optimizer.apply(gradients, placed.flat)
                for variable, move in zip(placed.others, others, strict=True):
                    variable.assign_add(move)
                count = placed.updates.assign_add(1, read_value=True)
                # Keras reads and then writes its counter, so concurrent steps would lose counts.
                placed.optimizer.iterations.assign(count)
            return _pack([rows, late, *metrics])

        return self._traced(step)

    # ---- synchronous --------------------------------------------------------------------------------------

    def trace_gradients(self) -> Any:
        """Trace a function of (iterator, worker) that stores gradients next to the weights."""
        import tensorflow as tf

        self._rows = []
        for piece in self._placed.flat:
            # One row per worker, on the parameter server that has the piece.
            with tf.device(piece.value.device):
                zeros = tf.zeros([self._workers, *piece.shape], piece.value.dtype)
                self._rows.append(tf.Variable(zeros, trainable=False))

        def step(iterator: Any, worker: Any) -> Any:
            gradients, rows, metrics, others = self._gradients(next(iterator), worker)
            for row, gradient in zip(self._rows, gradients, strict=True):
                with tf.device(row.device):
                    row.scatter_update(tf.IndexedSlices(gradient[tf.newaxis], worker[tf.newaxis]))
            return _pack([rows, 0, *metrics, *others])

        return self._traced(step)

    def trace_apply(self) -> Any:
        """Trace a function of (workers, shares, moves) that applies the mean of the stored gradients.

        ``workers`` are int32 in ascending order, ``shares`` their shares of the rows, and ``moves`` the
        changes of the other weights.
        """
        import tensorflow as tf

        placed = self._placed

        def apply(workers: Any, shares: Any, moves: Any) -> None:
            means = []
            for row in self._rows:
                with tf.device(row.device):
                    taken = tf.gather(row, workers)
                    means.append(tf.tensordot(tf.cast(shares, taken.dtype), taken, 1))
            placed.optimizer.apply(means, placed.flat)
            for variable, move in zip(placed.others, moves, strict=True):
                variable.assign_add(move)
            placed.updates.assign_add(1)

        moves = [tf.TensorSpec(v.shape, v.dtype) for v in placed.others]
        signature = (tf.TensorSpec([None], tf.int32), tf.TensorSpec([None], tf.float64), moves)
        return tf.function(apply, autograph=False).get_concrete_function(*signature)

    def combined_moves(self, outcomes: list[Outcome], shares: Any) -> list[Any]:
        """Return the changes of the other weights in a synchronous step: the mean of the workers' changes.

        States of random generators are counters, so they change as on the first worker.
        """
        moves = []
        for number, variable in enumerate(self._placed.others):
            each = [outcome.others[number] for outcome in outcomes]
            mean = sum(share * move for share, move in zip(shares, each, strict=True))
            moves.append(
                np.asarray(mean if variable.dtype.is_floating else each[0], variable.dtype.as_numpy_dtype)
            )
        return moves

    # ---- both ---------------------------------------------------------------------------------------------

    def outcome(self, packed: Any) -> Outcome:
        """Unpack the return value of a traced step."""
        values = np.asarray(packed)
        shapes = [tuple(v.shape) for v in [*self._metrics, *self._placed.others]]
        parts, at = [], 2
        for shape in shapes:
            size = int(np.prod(shape, dtype=int))
            parts.append(values[at : at + size].reshape(shape))
            at += size
            if at >= len(values):
                break
        count = len(self._metrics)
        return Outcome(int(values[0]), int(values[1]), parts[:count], parts[count:])

    def _traced(self, step: Any) -> Any:
        import tensorflow as tf

        return tf.function(step, autograph=False).get_concrete_function(*self._spec)

    def _gradients(self, batch: Any, worker: Any) -> Any:
        """Return gradients for the pieces, rows, metric values, and changes of the other weights."""
        import keras
        import tensorflow as tf

        data = batch.data if isinstance(batch, LocalBatch) else batch
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        model, placed = self._model, self._placed
        values = placed.read()
        before = [_of_worker(v.read_value(), worker) for v in placed.others]
        rows = batch.rows if isinstance(batch, LocalBatch) else tf.shape(tf.nest.flatten(x)[0])[0]
        # Metrics begin at nothing here: what they have then is what this batch adds.
        nothing = [(v, tf.zeros(v.shape, v.dtype)) for v in self._metrics]
        with tf.GradientTape() as tape:
            tape.watch(values)
            with keras.StatelessScope(state_mapping=placed.mapping(values, before) + nothing) as scope:
                y_pred = model(x, training=True)
                loss = model.compute_loss(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=True)
                for metric in model.metrics:
                    if metric.name == "loss":
                        metric.update_state(loss, sample_weight=rows)
                        break
                model.compute_metrics(x, y, y_pred, sample_weight)
        gradients = tape.gradient(loss, values, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        gradients = placed.cut([tf.convert_to_tensor(gradient) for gradient in gradients])
        moves = [new - old for new, old in zip(placed.new_others(scope), before, strict=True)]
        return gradients, rows, [scope.get_current_value(v) for v in self._metrics], moves


def _of_worker(value: Any, worker: Any) -> Any:
    """Shift a random generator's state by worker: otherwise all workers would drop out the same units."""
    import tensorflow as tf

    if value.dtype != tf.uint32 or value.shape.rank != 1:
        return value
    shift = tf.cast(worker, tf.uint32) * tf.constant(0x9E3779B1, tf.uint32)
    return tf.concat([value[:1] + shift, value[1:]], 0)


def _pack(values: list[Any]) -> Any:
    """Pack all values into one tensor, because each returned tensor is a separate message."""
    import tensorflow as tf

    return tf.concat([tf.reshape(tf.cast(value, tf.float64), [-1]) for value in values], 0)

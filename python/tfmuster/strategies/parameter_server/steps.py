"""Trace, on the coordinator, the functions that workers run to compute and apply gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from ...keras_compat.rows import LocalBatch
from .weights import PlacedWeights


@dataclass
class Outcome:
    """The result of one step of a worker."""

    rows: int
    #: Number of updates that others applied between the worker's read of the weights and its update.
    staleness: int
    #: What to add to each of the model's metric variables, and to each of its other weights; the latter is
    #: empty if the worker has already added it.
    metrics: list[npt.NDArray[np.float64]]
    others: list[npt.NDArray[np.float64]]


class Steps:
    """Traced functions for one model, which is built and compiled."""

    def __init__(
        self, model: keras.Model, placed: PlacedWeights, iterator_spec: tf.data.IteratorSpec, workers: int
    ) -> None:
        self._model, self._placed, self._workers = model, placed, workers
        #: The variables of the model's metrics.
        self.metrics = [variable for metric in model.metrics for variable in metric.variables]
        self._spec = (iterator_spec, tf.TensorSpec([], tf.int32))
        self._rows: list[tf.Variable] = []

    # ---- asynchronous -------------------------------------------------------------------------------------

    def trace_update(self) -> tf.types.experimental.ConcreteFunction:
        """Trace a function of (iterator, worker) that reads the weights, computes, and updates them."""
        placed = self._placed

        def step(iterator: Iterator[object], worker: tf.Tensor) -> tf.Tensor:
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

    def trace_gradients(self) -> tf.types.experimental.ConcreteFunction:
        """Trace a function of (iterator, worker) that stores gradients next to the weights."""
        self._rows = []
        for piece in self._placed.flat:
            # One row per worker, on the parameter server that has the piece.
            with tf.device(piece.value.device):
                zeros = tf.zeros([self._workers, *piece.shape], piece.value.dtype)
                self._rows.append(tf.Variable(zeros, trainable=False))

        def step(iterator: Iterator[object], worker: tf.Tensor) -> tf.Tensor:
            gradients, rows, metrics, others = self._gradients(next(iterator), worker)
            for row, gradient in zip(self._rows, gradients, strict=True):
                with tf.device(row.device):
                    row.scatter_update(tf.IndexedSlices(gradient[tf.newaxis], worker[tf.newaxis]))
            return _pack([rows, 0, *metrics, *others])

        return self._traced(step)

    def trace_apply(self) -> tf.types.experimental.ConcreteFunction:
        """Trace a function of (workers, shares, moves) that applies the mean of the stored gradients.

        They are int32 in ascending order, the workers' shares of the rows, and the changes of other weights.
        """
        placed = self._placed

        def apply(workers: tf.Tensor, shares: tf.Tensor, moves: list[tf.Tensor]) -> None:
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

    def combined_moves(self, outcomes: list[Outcome], shares: list[float]) -> list[npt.NDArray[np.generic]]:
        """Return the changes of the other weights in a synchronous step: the mean of the workers' changes.

        States of random generators are counters, so they change as on the first worker.
        """
        moves = []
        for number, variable in enumerate(self._placed.others):
            changes = [outcome.others[number] for outcome in outcomes]
            mean = sum(share * change for share, change in zip(shares, changes, strict=True))
            move = mean if variable.dtype.is_floating else changes[0]
            moves.append(np.asarray(move, variable.dtype.as_numpy_dtype))
        return moves

    # ---- both ---------------------------------------------------------------------------------------------

    def outcome(self, values: npt.NDArray[np.float64]) -> Outcome:
        """Unpack the return value of a traced step."""
        parts, at = [], 2
        for variable in [*self.metrics, *self._placed.others]:
            shape = tuple(variable.shape)
            size = int(np.prod(shape, dtype=int))
            parts.append(values[at : at + size].reshape(shape))
            at += size
            if at >= len(values):
                break
        count = len(self.metrics)
        return Outcome(int(values[0]), int(values[1]), parts[:count], parts[count:])

    def _traced(self, step: Callable[..., tf.Tensor]) -> tf.types.experimental.ConcreteFunction:
        return tf.function(step, autograph=False).get_concrete_function(*self._spec)

    def _gradients(self, batch: object, worker: tf.Tensor) -> tuple[Any, Any, Any, Any]:
        """Return gradients for the pieces, rows, metric values, and changes of the other weights."""
        data = batch.data if isinstance(batch, LocalBatch) else batch
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        model, placed = self._model, self._placed
        values = placed.read()
        before = [_of_worker(v.read_value(), worker) for v in placed.others]
        rows = batch.rows if isinstance(batch, LocalBatch) else tf.shape(tf.nest.flatten(x)[0])[0]
        # Metrics begin at nothing here: what they have then is what this batch adds.
        nothing = [(v, tf.zeros(v.shape, v.dtype)) for v in self.metrics]
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
        return gradients, rows, [scope.get_current_value(v) for v in self.metrics], moves


def _of_worker(value: tf.Tensor, worker: tf.Tensor) -> tf.Tensor:
    """Shift a random generator's state by worker: otherwise all workers would drop out the same units."""
    if value.dtype != tf.uint32 or value.shape.rank != 1:
        return value
    shift = tf.cast(worker, tf.uint32) * tf.constant(0x9E3779B1, tf.uint32)
    return tf.concat([value[:1] + shift, value[1:]], 0)


def _pack(values: list[tf.Tensor | int]) -> tf.Tensor:
    """Pack all values into one tensor, because each returned tensor is a separate message."""
    return tf.concat([tf.reshape(tf.cast(value, tf.float64), [-1]) for value in values], 0)

"""One step on this worker's rows, as Keras's step traces it, and what the workers agree on after it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import tensorflow as tf

from ...system.user_code import module_of
from .. import seams
from ..losses.batch_statistics import synchronized
from ..losses.layer_states import states_of_step
from ..losses.loss_parts import may_have_terms
from ..losses.metrics import Log, metrics_of_step
from ..process import worker_of
from ..rows import LocalBatch, Tensors, absent_to_none, of_any_size, part_of
from ..step_rows import rows_of_step, running
from ..sums.collectives import pack, replica_sum, unpack
from .tracing import compiled

if TYPE_CHECKING:
    import keras


def moving_statistics(model: keras.Model) -> list[keras.Variable]:
    """Return the weights that each worker's layers update of its own rows, such as moving means."""
    return [
        variable
        for layer in seams.FLATTEN_LAYERS.of(model)()
        if not synchronized(layer, model.distribute_strategy)
        for variable in seams.NON_TRAINABLE.of(layer, [])
        if "float" in str(variable.dtype)
    ]


def own_states(model: keras.Model) -> list[keras.Variable]:
    """Return the weights that layers of the program set themselves."""
    layers = (one for one in seams.FLATTEN_LAYERS.of(model)() if not module_of(one).startswith("keras."))
    return [variable for layer in layers for variable in seams.NON_TRAINABLE.of(layer, [])]


class ReplicaStep:
    """The step of a model on the rows of this worker. Within ``recording``, it records its gradients."""

    def __init__(
        self,
        model: keras.Model,
        step: Callable[[Tensors], Tensors],
        recording: Callable[[tf.Tensor], AbstractContextManager[object]],
    ) -> None:
        self._model, self._step, self._recording = model, step, recording
        self._strategy = model.distribute_strategy
        self._worker, self._workers = worker_of(self._strategy)
        #: Whether steps are traced for any number of rows, which tells sums from means; and whether one is.
        self._of_any_size = not model.run_eagerly and may_have_terms(model)
        self._tracing = False
        #: Whether the execution that is traced records its gradients, a bool.
        self.record: tf.Tensor = None
        #: The weights, by their ids, to which a step assigns values of the whole batch.
        self._whole_states: set[int] = set()
        #: Of what a step returns, in the order of tf.nest; known when the step has been traced.
        self._sources: list[Log] = []

    def __call__(self, part: Tensors, per_worker: bool = False) -> Tensors:
        """Run the step on this worker's rows of a batch, which are its own with ``per_worker``."""
        return self._strategy.run(self._on_rows, args=(part, per_worker))

    def needs_number_of_rows(self) -> bool:
        """Return whether the failed trace was for any number of rows; the next is for a known number."""
        failed = self._of_any_size and self._tracing
        if failed:
            self._of_any_size = self._tracing = False
        return failed

    def _on_rows(self, part: Tensors, per_worker: bool) -> Tensors:
        if not isinstance(part, LocalBatch):
            with running(), compiled(self._model):
                outputs = self._step(absent_to_none(part))
            self._sources[:] = [Log(None, 0, False) for _ in tf.nest.flatten(outputs)]
            return outputs
        self._tracing = True
        data = of_any_size(part) if self._of_any_size else part.data
        statistics = moving_statistics(self._model)
        before = [tf.identity(v.value) for v in statistics]
        first, _ = part_of(part.global_rows, self._worker, self._workers)
        if per_worker:
            # The workers' own rows have no order, so each begins after all that there can be before.
            first = part.global_rows * self._worker
        with rows_of_step(part, first, data), metrics_of_step(self._model) as metrics:
            counts = {id(v): tf.identity(v.value) for v in metrics.counted()}
            recording, states = self._recording(self.record), states_of_step(own_states(self._model))
            with compiled(self._model), recording, states as self._whole_states:
                outputs = self._step(absent_to_none(data))
            values, self._sources[:] = metrics.logs(outputs)
            outputs = tf.nest.pack_sequence_as(outputs, values)
        # A worker without rows has read a placeholder row, which must not change any state.
        for variable in metrics.counted():
            variable.assign(tf.where(part.rows > 0, variable.value, counts[id(variable)]))
        for variable, old in zip(statistics, before, strict=True):
            if id(variable) in self._whole_states:
                continue
            new = variable.value
            if per_worker:
                # The mean over the workers of these changes weighs each worker by its rows.
                weight = tf.cast(part.rows * self._workers, variable.dtype) / tf.cast(
                    part.global_rows, variable.dtype
                )
                new = old + (new - old) * weight
            variable.assign(tf.where(part.rows > 0, new, old))
        self._tracing = False
        return outputs

    def finish(
        self, steps: Callable[[], tuple[Tensors, tuple[tf.Tensor, ...]]], tells: tf.Tensor
    ) -> tuple[Tensors, tuple[tf.Tensor, ...]]:
        """Run steps, and let the workers agree on their logs and on what changed without the optimizer."""
        before = self._strategy.run(lambda: [tf.identity(v.value) for v in moving_statistics(self._model)])
        outputs, read = steps()
        return self._strategy.run(self._agree, args=((outputs, tells), before)), read

    def _agree(self, outputs: Tensors, before: list[tf.Tensor]) -> Tensors:
        """Return the logs of all rows; change statistics by the mean of the workers' changes."""
        statistics = moving_statistics(self._model)
        moves = [v.value - old for v, old in zip(statistics, before, strict=True)]
        values = [tf.convert_to_tensor(t) for t in tf.nest.flatten(outputs)]
        metrics = {id(log.metric): log.metric for log in self._sources if log.metric is not None}
        states = {key: [v.value for v in metric.variables] for key, metric in metrics.items()}
        tensors = [*values, *moves, *itertools.chain(*states.values())]
        # One collective for all of them.
        sums = iter(unpack(replica_sum(pack(tensors)), tensors) if tensors else [])
        of_values = [next(sums) for _ in values]
        for variable, old, _ in zip(statistics, before, moves, strict=True):
            change = next(sums) / self._workers
            if id(variable) not in self._whole_states:
                variable.assign(old + change)
        results = {
            key: tf.nest.flatten(metrics[key].stateless_result([next(sums) for _ in state]))
            for key, state in states.items()
        }
        logs = [
            total
            if log.adds_up
            else tf.cast(tf.cast(total, tf.float32) / self._workers, total.dtype)  # may be of any type
            if log.metric is None
            else results[id(log.metric)][log.place]
            for total, log in zip(of_values, [*self._sources, Log(None, 0, False)], strict=True)
        ]
        return tf.nest.pack_sequence_as(outputs, logs)

"""Run one execution of ``fit`` or ``evaluate``: some steps on this worker's rows, then one all-reduce."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ...system.activity import ACTIVITY
from ...words import Argument
from .. import seams
from ..agreement.comparison import agree_on_end, ended_before
from ..agreement.watching import ended_before_whom
from ..data.data_errors import readers_errors
from ..data.worker_batches import Taken, has_own_rows, keep_totals, local_part_of, take, totals_of
from ..losses.loss_parts import has_own_loss
from ..losses.step_metrics import Log, metrics_of_step
from ..process import tell, worker_of
from ..rows import (
    LocalBatch,
    PlaceOfRows,
    absent_to_none,
    as_tensors,
    local_batch,
    part_of,
    rows_of_step,
    traced_rows,
)
from ..sums.collectives import pack, replica_sum, unpack
from ..sums.instance_keys import mark_loop
from .epochs import MOST_STEPS, StepsPerExecution
from .tracing import compiled, inlined


def moving_statistics(model: Any) -> list[Any]:
    """Return the weights that layers update without the optimizer, such as moving means."""
    return [
        variable
        for layer in seams.FLATTEN_LAYERS.of(model)()
        for variable in seams.NON_TRAINABLE.of(layer, [])
        if "float" in str(variable.dtype)
    ]


def _all_reduce_sum(tensors: list[Any]) -> list[Any]:
    """Return the sum of each tensor over the workers, with one collective.

    Call it in a replica context.
    """
    if not tensors:
        return []
    return unpack(replica_sum(pack(tensors)), tensors)


def _note_end(done: Any) -> bool:
    """Note that the data have ended after so many steps of an execution."""
    ACTIVITY.data_ended = ACTIVITY.place().get("step", 1) - 1 + int(done)
    ACTIVITY.changed()
    return True


def _count_execution() -> bool:
    """Note that an execution with a collective operation begins."""
    ACTIVITY.executions += 1
    return True


def make_function(
    trainer: Any, step: Callable[[Any], Any], pace: StepsPerExecution | None
) -> Callable[[Any], Any]:
    """Make the function that ``fit`` and ``evaluate`` call: it runs steps of an iterator and returns logs.

    ``pace`` sets the number of steps; without it, the model's ``steps_per_execution`` does.
    """
    import tensorflow as tf

    if trainer.run_eagerly and has_own_loss(trainer):
        tell(
            "loss",
            f"with {Argument('run_eagerly', True)}, a loss that the model computes itself counts as a mean "
            "of rows; if one of Keras's losses is computed in the same step, it counts as a sum of parts",
        )
    if isinstance(step, tf.types.experimental.PolymorphicFunction):
        step = inlined(step)
    # Without this, TensorFlow rejects a gradient all-reduce in a branch (gradient accumulation) or a loop.
    seams.USE_MERGE_CALL.set(trainer.distribute_strategy.extended, lambda: False)
    return _Executions(trainer, step, pace).run


class _Executions:
    """Executions of a model's step on this worker's rows, each followed by one all-reduce."""

    def __init__(self, trainer: Any, step: Callable[[Any], Any], pace: StepsPerExecution | None) -> None:
        import tensorflow as tf

        self._trainer, self._step, self._pace = trainer, step, pace
        self._strategy = trainer.distribute_strategy
        self._worker, self._workers = worker_of(self._strategy)
        #: Of what a step returns, in the order of tf.nest; known when the step has been traced.
        self._sources: list[Log] = []
        self._execute: Any = tf.autograph.experimental.do_not_convert(self._execution)
        self._execute_batch: Any = tf.autograph.experimental.do_not_convert(self._batch_execution)
        if not trainer.run_eagerly:
            self._execute = tf.function(self._execute, reduce_retracing=True)
            self._execute_batch = tf.function(self._execute_batch, reduce_retracing=True)

    def run(self, iterator: Any) -> Any:
        """Run one execution, and return its logs.

        Parameters
        ----------
        iterator : tf.data.Iterator or iterator of arrays
            The data; ``train_on_batch`` has one batch of arrays.

        Raises
        ------
        StopIteration
            There are no more data.
        DataError
            The data of this worker have ended before those of the others.
        """
        import tensorflow as tf

        if not isinstance(iterator, (tf.data.Iterator, tf.distribute.DistributedIterator)):
            part = local_batch(as_tensors(next(iter(iterator))), self._worker, self._workers)
            with ACTIVITY.execution():
                logs = self._execute_batch(part)
            return seams.RESULT_OR_LOGS.of(self._trainer)(logs)
        begin, pace = time.perf_counter(), self._pace
        steps, report = (pace.granted, pace.report()) if pace else (self._trainer.steps_per_execution, 0.0)
        ACTIVITY.data_ended = None
        with readers_errors():
            ACTIVITY.enter()
            try:
                outputs, totals = self._execute(
                    iterator, tf.constant(steps), tf.constant(report), totals_of(iterator)
                )
            except tf.errors.InternalError as error:
                if (other := ended_before_whom(error)) is None:
                    raise
                found = f"its data ended after {ACTIVITY.data_ended} batches"
                raise ended_before(self._trainer, [other], found) from None
            finally:
                ACTIVITY.leave()
            keep_totals(iterator, totals)
            if not outputs.has_value():
                agree_on_end(self._trainer)
                raise StopIteration
            logs, reports = outputs.get_value()
        if pace:
            pace.ended(time.perf_counter() - begin, float(reports))
        return logs

    def _execution(self, iterator: Any, steps: Any, report: Any, totals: Any) -> Any:
        """Run steps of an iterator, and return an optional of the logs, and what :func:`take` needs next."""
        import tensorflow as tf

        first = take(iterator, totals, self._strategy)
        spec: list[Any] = []

        def run() -> Any:
            if self._pace is None and self._trainer.steps_per_execution == 1:
                return self._on_replica(local_part_of(first), has_own_rows(iterator)), first.totals
            return self._several(iterator, first, steps)

        def train() -> Any:
            # Whether an execution has a step, and so a collective operation, is known only here.
            tf.numpy_function(_count_execution, [], tf.bool)
            values, totals = self._finish(run, report)
            outputs = tf.experimental.Optional.from_value(values)
            spec.append(outputs.element_spec)
            return outputs, totals

        def end() -> Any:
            return tf.experimental.Optional.empty(spec[0] if spec else tf.TensorSpec([])), first.totals

        return tf.cond(first.more, train, end)

    def _batch_execution(self, part: LocalBatch) -> Any:
        """Run one step on the rows of a batch, and return its logs."""
        import tensorflow as tf

        (logs, _), _ = self._finish(lambda: (self._on_replica(part), None), tf.constant(0.0))
        return logs

    def _on_replica(self, part: Any, own_rows: bool = False) -> Any:
        return self._strategy.run(self._replica_step, args=(part, own_rows))

    def _several(self, iterator: Any, first: Taken, steps: Any) -> Any:
        """Run up to ``steps`` steps, or until the data ends, as one loop in the graph."""
        import tensorflow as tf

        start = tf.experimental.Optional.empty(None)
        most_steps = (
            max(MOST_STEPS, self._pace.steps) if self._pace else int(self._trainer.steps_per_execution)
        )

        def body(done: Any, _: Any, taken: Taken) -> Any:
            mark_loop(done, most_steps)
            latest = tf.experimental.Optional.from_value(
                self._on_replica(local_part_of(taken), has_own_rows(iterator))
            )
            # The loop's initial value needs the type that is known only after tracing the body.
            seams.OPTIONAL_SPEC.set(start, latest.element_spec)
            taken = tf.cond(
                done + 1 < steps, lambda: take(iterator, taken.totals, self._strategy), lambda: taken
            )
            return done + 1, latest, taken

        def more(done: Any, _: Any, taken: Taken) -> Any:
            return tf.logical_and(done < steps, taken.more)

        done, outputs, last = tf.while_loop(more, body, (tf.constant(0), start, first))
        # If other workers have more data, the next collective operation waits for them without end.
        tf.cond(
            done < steps, lambda: tf.numpy_function(_note_end, [done], tf.bool), lambda: tf.constant(False)
        )
        seams.OPTIONAL_SPEC.set(outputs, seams.OPTIONAL_SPEC.of(start))
        return outputs.get_value(), last.totals

    def _replica_step(self, part: Any, own_rows: bool) -> Any:
        """Run the step on this worker's rows of a batch."""
        import tensorflow as tf

        if not isinstance(part, LocalBatch):
            with compiled(self._trainer):
                outputs = self._step(absent_to_none(part))
            self._sources[:] = [Log(None, 0, False) for _ in tf.nest.flatten(outputs)]
            return outputs
        statistics = moving_statistics(self._trainer)
        before = [tf.identity(v.value) for v in statistics]
        # Own rows have no order among the workers, so each worker begins after all that there can be before.
        first = (
            part.global_rows * self._worker
            if own_rows
            else part_of(part.global_rows, self._worker, self._workers)[0]
        )
        place = PlaceOfRows(part.rows, part.global_rows, first, traced_rows(part.data))
        with rows_of_step(place), metrics_of_step(self._trainer) as metrics:
            counts = {id(v): tf.identity(v.value) for v in metrics.counted()}
            with compiled(self._trainer):
                outputs = self._step(absent_to_none(part.data))
            values, self._sources[:] = metrics.logs(outputs)
            outputs = tf.nest.pack_sequence_as(outputs, values)
        # A worker without rows has read a placeholder row, which must not change any state.
        for variable in metrics.counted():
            variable.assign(tf.where(part.rows > 0, variable.value, counts[id(variable)]))
        for variable, old in zip(statistics, before, strict=True):
            new = variable.value
            if own_rows:
                # The mean over the workers of these changes weighs each worker by its rows.
                weight = tf.cast(part.rows * self._workers, variable.dtype) / tf.cast(
                    part.global_rows, variable.dtype
                )
                new = old + (new - old) * weight
            variable.assign(tf.where(part.rows > 0, new, old))
        return outputs

    def _finish(self, steps: Callable[[], Any], report: Any) -> Any:
        """Run steps, and let the workers agree on their logs and on what changed without the optimizer."""
        import tensorflow as tf

        before = self._strategy.run(lambda: [tf.identity(v.value) for v in moving_statistics(self._trainer)])
        outputs, totals = steps()
        return self._strategy.run(self._agree, args=((outputs, report), before)), totals

    def _agree(self, outputs: Any, before: list[Any]) -> Any:
        """Return the logs of all rows; change statistics by the mean of the workers' changes."""
        import tensorflow as tf

        statistics = moving_statistics(self._trainer)
        moves = [v.value - old for v, old in zip(statistics, before, strict=True)]
        values = [tf.convert_to_tensor(t) for t in tf.nest.flatten(outputs)]
        metrics = list(
            {id(log.metric): log.metric for log in self._sources if log.metric is not None}.values()
        )
        states = [[v.value for v in metric.variables] for metric in metrics]
        sums = iter(_all_reduce_sum([*values, *moves, *tf.nest.flatten(states)]))
        of_values = [next(sums) for _ in values]
        for variable, old, _ in zip(statistics, before, moves, strict=True):
            variable.assign(old + next(sums) / self._workers)
        results = {
            id(metric): tf.nest.flatten(metric.stateless_result([next(sums) for _ in state]))
            for metric, state in zip(metrics, states, strict=True)
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

"""Run one execution of ``fit`` or ``evaluate``: some steps on this worker's rows, then one all-reduce."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from ...errors import TfmusterError
from ...system.activity import ACTIVITY
from ...words import Argument
from .. import seams
from ..agreement.comparison import agree_on_end, ended_before
from ..agreement.documents import Call
from ..agreement.waiting import ended_before_whom
from ..data.data_errors import of_whole_batch, readers_errors
from ..data.worker_batches import Taken, batch_of, keep_totals, take, totals_of, yields_worker_batches
from ..losses.loss_parts import has_own_loss
from ..process import tell, worker_of
from ..proof.first_step import Proof
from ..row_sums import weight_of_step
from ..rows import LocalBatch, Tensors, WorkerBatch, as_tensors, local_batch
from ..sums.instance_keys import mark_loop
from .epochs import MOST_STEPS, StepsPerExecution
from .replica_step import ReplicaStep
from .tracing import inlined

if TYPE_CHECKING:
    import keras
    import numpy as np


def _note_end(done: int | np.int32) -> bool:
    """Note that the data have ended after so many steps of an execution."""
    ACTIVITY.data_ended = ACTIVITY.place().get("step", 1) - 1 + int(done)
    ACTIVITY.changed()
    return True


def _sums(part: Tensors) -> tf.Tensor:
    """Return the sums of the rows of a step."""
    return tf.convert_to_tensor(part.sums) if isinstance(part, LocalBatch) else tf.zeros(3, tf.float64)


def _count_execution() -> bool:
    """Note that an execution with a collective operation begins."""
    ACTIVITY.executions += 1
    return True


class Executions:
    """The function that ``fit`` and ``evaluate`` call. It runs steps, then one all-reduce, and returns logs.

    Without ``pace``, the model's ``steps_per_execution`` sets the number of steps.
    """

    def __init__(
        self, model: keras.Model, step: Callable[[Tensors], Tensors], pace: StepsPerExecution | None
    ) -> None:
        if model.run_eagerly and has_own_loss(model):
            tell(
                "loss",
                f"with {Argument('run_eagerly', True)}, a loss that the model computes itself counts as a "
                "mean of rows; if one of Keras's losses is computed in the same step, it counts as a sum of "
                "parts",
            )
        self._model, self.pace, self._strategy = model, pace, model.distribute_strategy
        # Else TensorFlow rejects a gradient all-reduce in a branch (gradient accumulation) or a loop.
        seams.USE_MERGE_CALL.set(self._strategy.extended, lambda: False)
        self._worker, self._workers = worker_of(self._strategy)
        if isinstance(step, tf.types.experimental.PolymorphicFunction):
            step = inlined(step)
        self._proof = Proof(model, step)
        self._step = ReplicaStep(model, step, self._proof.recording)
        self._make()

    def _make(self) -> None:
        """Make the functions that run an execution, which are traced when they are first called."""
        self._execute: Any = tf.autograph.experimental.do_not_convert(self._execution)
        self._execute_batch: Any = tf.autograph.experimental.do_not_convert(self._batch_execution)
        if not self._model.run_eagerly:
            self._execute = tf.function(self._execute, reduce_retracing=True)
            self._execute_batch = tf.function(self._execute_batch, reduce_retracing=True)

    def __call__(self, iterator: Any) -> dict[str, object]:
        """Run one execution on the data of an iterator; ``train_on_batch`` has one batch of arrays.

        Raise StopIteration if there are no more data, and a DataError if those of this worker have ended
        before those of the others.
        """
        if not isinstance(iterator, (tf.data.Iterator, tf.distribute.DistributedIterator)):
            part = local_batch(as_tensors(next(iter(iterator))), self._worker, self._workers)
            types = tf.nest.map_structure(tf.type_spec_from_value, part.data)
            return seams.RESULT_OR_LOGS.of(self._model)(self._run_batch(part, types))  # type: ignore[no-any-return]
        if not isinstance(iterator.element_spec, (LocalBatch, WorkerBatch)):
            self._proof.leave_out("its data set is distributed by TensorFlow")
        steps = self.pace.granted if self.pace else self._model.steps_per_execution
        place = ACTIVITY.place()
        # The last batch of an epoch may be smaller.
        if steps == 1 and place.get("steps") and place["steps"] == place.get("step"):
            self._proof.look_again()
        ACTIVITY.data_ended = None
        first = 1 if self._proof.due else steps
        logs = self._run(iterator, first)
        if logs is None:
            agree_on_end(self._model)
            raise StopIteration
        if first == steps:
            return logs
        # The proof is of the first step alone.
        rest = self._run(iterator, steps - first)
        if rest is None:
            _note_end(first)
            return logs
        if ACTIVITY.data_ended is not None:
            ACTIVITY.data_ended += first
        return rest

    def _run_batch(self, part: LocalBatch, spec: Tensors, *, own_rows: bool = False) -> dict[str, object]:
        """Run one step on this worker's rows of a batch, whose data have the type ``spec``."""
        proves = self._proof.begins()
        with ACTIVITY.execution():
            logs = self._traced(self._execute_batch, part, tf.constant(proves))
        if proves and not self._proof.prove(part, spec, logs, own_rows=own_rows):
            self._make()
            return self._run_batch(part, spec, own_rows=own_rows)
        return logs  # type: ignore[no-any-return]

    def _run(self, iterator: Any, steps: int) -> dict[str, object] | None:
        """Run up to so many steps, and return their logs; None if there are no more data."""
        begin, pace = time.perf_counter(), self.pace
        call = Call.of(self._model)
        tells = [pace.report() if pace else 0.0, float(call is not None and call.wishes_stop)]
        proves = self._proof.begins()
        with readers_errors():
            ACTIVITY.enter()
            try:
                outputs, first, totals, sums = self._traced(
                    self._execute,
                    iterator,
                    tf.constant(steps),
                    tf.constant(tells),
                    totals_of(iterator),
                    tf.constant(proves),
                )
            except tf.errors.InternalError as error:
                if (other := ended_before_whom(error)) is None:
                    raise
                raise ended_before(self._model, [other]) from None
            finally:
                ACTIVITY.leave()
            keep_totals(iterator, totals)
            if not outputs.has_value():
                return None
            logs, told = outputs.get_value()
        reports, wishes = told.numpy()
        if call is not None:
            call.has_read(sums.numpy())
            call.stops = call.stops or bool(wishes > 0)
        if proves:
            part: Any = batch_of(first)
            spec, own_rows = iterator.element_spec.data, yields_worker_batches(iterator)
            if not self._proof.prove(part, spec, logs, own_rows=own_rows):
                self._make()
                logs = self._run_batch(part, spec, own_rows=own_rows)
        if pace:
            pace.last_alone = self._proof.looks_again
            pace.ended(time.perf_counter() - begin, float(reports))
        return logs  # type: ignore[no-any-return]

    def _traced(self, execute: Callable[..., Any], *args: object) -> Any:
        """Run an execution; trace it for a known number of rows if its steps need one."""
        try:
            return self._proof.run(execute, *args)
        except Exception as error:
            if isinstance(error, TfmusterError) or not self._step.needs_number_of_rows():
                if (cause := of_whole_batch(error, self._workers)) is not None:
                    raise cause from error
                raise
        result = self._traced(execute, *args)
        tell(
            "loss",
            "a step computes with its number of rows in Python; its own terms of the loss count as means",
        )
        return result

    def _execution(
        self,
        iterator: tf.data.Iterator,
        steps: tf.Tensor,
        tells: tf.Tensor,
        totals: tf.Tensor,
        record: tf.Tensor,
    ) -> tuple[tf.experimental.Optional, Taken | None, tf.Tensor, tf.Tensor]:
        """Run steps of an iterator; ``tells`` are numbers of this worker, of which all get the mean.

        With ``record``, a bool, the proof of the first step gets the gradients. Return an optional of the
        logs, the first element, what :func:`take` needs next, and the sums of the rows.
        """
        first = take(iterator, totals, self._strategy)
        self._step.record = record
        per_worker = yields_worker_batches(iterator)
        spec: list[tf.TypeSpec] = []

        def run() -> tuple[Tensors, tuple[tf.Tensor, tf.Tensor]]:
            if self.pace is None and self._model.steps_per_execution == 1:
                part = batch_of(first)
                return self._step(part, per_worker), (first.totals, _sums(part))
            return self._several(iterator, first, steps)

        def train() -> tuple[tf.experimental.Optional, tf.Tensor, tf.Tensor]:
            # Whether an execution has a step, and so a collective operation, is known only here.
            tf.numpy_function(_count_execution, [], tf.bool)
            values, read = self._step.finish(run, tells)
            outputs = tf.experimental.Optional.from_value(values)
            spec.append(outputs.element_spec)
            return outputs, *read

        def end() -> tuple[tf.experimental.Optional, tf.Tensor, tf.Tensor]:
            nothing = tf.experimental.Optional.empty(spec[0] if spec else tf.TensorSpec([]))
            return nothing, first.totals, tf.zeros(3, tf.float64)

        outputs, totals, sums = tf.cond(first.more, train, end)
        ACTIVITY.happens("traced")
        return outputs, first if isinstance(iterator, tf.data.Iterator) else None, totals, sums

    def _batch_execution(self, part: LocalBatch, record: tf.Tensor) -> Tensors:
        """Run one step on the rows of a batch, and return its logs."""
        self._step.record = record
        (logs, _), _ = self._step.finish(lambda: (self._step(part), ()), tf.constant(0.0))
        return logs

    def _several(
        self, iterator: tf.data.Iterator, first: Taken, steps: tf.Tensor
    ) -> tuple[Tensors, tuple[tf.Tensor, tf.Tensor]]:
        """Run up to ``steps`` steps, or until the data ends, as one loop in the graph."""
        start, pace = tf.experimental.Optional.empty(None), self.pace
        most_steps = max(MOST_STEPS, pace.steps) if pace else int(self._model.steps_per_execution)
        per_worker = yields_worker_batches(iterator)

        def body(done: tf.Tensor, _: object, taken: Taken, sums: tf.Tensor) -> tuple[object, ...]:
            mark_loop(done, most_steps)
            part = batch_of(taken)
            latest = tf.experimental.Optional.from_value(self._step(part, per_worker))
            # The loop's initial value needs the type that is known only after tracing the body.
            seams.OPTIONAL_SPEC.set(start, latest.element_spec)
            taken = tf.cond(
                done + 1 < steps, lambda: take(iterator, taken.totals, self._strategy), lambda: taken
            )
            weight = weight_of_step(tf.cast(done, tf.float64))
            return done + 1, latest, taken, sums + weight * _sums(part)

        def more(done: tf.Tensor, _: object, taken: Taken, __: tf.Tensor) -> tf.Tensor:
            return tf.logical_and(done < steps, taken.more)

        begin = (tf.constant(0), start, first, tf.zeros(3, tf.float64))
        done, outputs, last, sums = tf.while_loop(more, body, begin)
        # If other workers have more data, the next collective operation waits for them without end.
        tf.cond(
            done < steps, lambda: tf.numpy_function(_note_end, [done], tf.bool), lambda: tf.constant(False)
        )
        seams.OPTIONAL_SPEC.set(outputs, seams.OPTIONAL_SPEC.of(start))
        return outputs.get_value(), (last.totals, sums)

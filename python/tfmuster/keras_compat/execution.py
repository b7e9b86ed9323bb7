"""Run one execution of ``fit`` or ``evaluate``: some steps on this worker's rows, then one all-reduce."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from ..errors import StrategyError
from .sharding import LocalBatch, part_of, rows_to_read
from .steps_per_execution import StepsPerExecution
from .strategy_info import worker_of
from .tensor_fusion import pack, unpack

_scale = threading.local()


def current_loss_share() -> Any:
    """Return this worker's share of the rows of the global batch; None if it is not known."""
    return getattr(_scale, "share", None)


def local_batch(batch: Any, worker: int, workers: int) -> LocalBatch:
    """Return one worker's rows of a global batch."""
    import tensorflow as tf

    rows = tf.shape(next(t for t in tf.nest.flatten(batch) if t is not None), out_type=tf.int64)[0]
    start, stop = part_of(rows, worker, workers)
    first, end = rows_to_read(start, stop)
    data = tf.nest.map_structure(lambda t: t if t is None else t[first:end], batch)
    return LocalBatch(data, stop - start, rows)


@contextlib.contextmanager
def _loss_share(share: Any) -> Iterator[None]:
    """Inside the block, weight losses by ``share``: the worker's rows over those of the global batch."""
    _scale.share = share
    try:
        yield
    finally:
        _scale.share = None


def moving_statistics(model: Any) -> list[Any]:
    """Return the weights that layers update without the optimizer, such as moving means."""
    return [
        variable
        for layer in model._flatten_layers()
        for variable in getattr(layer, "_non_trainable_variables", [])
        if "float" in str(variable.dtype)
    ]


def _all_reduce_mean(tensors: list[Any]) -> list[Any]:
    """Return the mean of each tensor over the workers, with one collective.

    Call it in a replica context.
    """
    import tensorflow as tf

    if not tensors:
        return []
    context = tf.distribute.get_replica_context()
    return unpack(context.all_reduce(tf.distribute.ReduceOp.MEAN, pack(tensors)), tensors)


def absent_to_none(data: Any) -> Any:
    """Replace absent optional values with None, as Keras's steps expect."""
    import tensorflow as tf

    return tf.nest.map_structure(lambda t: None if isinstance(t, tf.experimental.Optional) else t, data)


def make_function(
    trainer: Any, step: Callable[[Any], Any], pace: StepsPerExecution | None
) -> Callable[[Any], Any]:
    """Make the function that ``fit`` and ``evaluate`` call: it runs steps of an iterator and returns logs.

    ``pace`` sets the number of steps; without it, the model's ``steps_per_execution`` does.
    """
    import tensorflow as tf

    strategy = trainer.distribute_strategy
    if trainer.jit_compile:
        raise StrategyError(
            "jit_compile=True does not work on several workers: XLA has no collectives for CPUs.",
            fix="compile(..., jit_compile=False)",
            strategy="multi_worker_mirrored",
            reason="jit-compile",
        )
    # Without this, TensorFlow rejects a gradient all-reduce in a branch (gradient accumulation) or a loop.
    strategy.extended._use_merge_call = lambda: False

    def replica_step(part: Any) -> Any:
        if not isinstance(part, LocalBatch):
            return step(absent_to_none(part))
        kept = [*moving_statistics(trainer), *(v for metric in trainer.metrics for v in metric.variables)]
        before = [tf.identity(v.value) for v in kept]
        with _loss_share(tf.cast(part.rows, tf.float32) / tf.cast(part.global_rows, tf.float32)):
            outputs = step(absent_to_none(part.data))
        # A worker without rows has read a placeholder row, which must not change any state.
        for variable, old in zip(kept, before, strict=True):
            variable.assign(tf.where(part.rows > 0, variable.value, old))
        return outputs

    def agree(outputs: Any, before: list[Any]) -> Any:
        """Return the means of the workers' logs; change statistics by the mean of the workers' changes."""
        statistics = moving_statistics(trainer)
        moves = [v.value - old for v, old in zip(statistics, before, strict=True)]
        logs = [tf.convert_to_tensor(t) for t in tf.nest.flatten(outputs)]
        means = _all_reduce_mean(logs + moves)
        for variable, old, move in zip(statistics, before, means[len(logs) :], strict=True):
            variable.assign(old + move)
        return tf.nest.pack_sequence_as(outputs, means[: len(logs)])

    def several(iterator: Any, first: Any, steps: Any) -> Any:
        """Run up to ``steps`` steps, or until the data ends, as one loop in the graph."""
        outputs = tf.experimental.Optional.empty(None)
        start = outputs

        def body(done: Any, _: Any, following: Any) -> Any:
            latest = tf.experimental.Optional.from_value(
                strategy.run(replica_step, args=(following.get_value(),))
            )
            # The loop's initial value needs the type that is known only after tracing the body.
            start._element_spec = latest.element_spec
            following = tf.cond(done + 1 < steps, iterator.get_next_as_optional, lambda: following)
            return done + 1, latest, following

        def more(done: Any, _: Any, following: Any) -> Any:
            return tf.logical_and(done < steps, following.has_value())

        _, outputs, _ = tf.while_loop(more, body, (tf.constant(0), outputs, first))
        outputs._element_spec = start._element_spec
        return outputs.get_value()

    def finish(run: Callable[[], Any], report: Any) -> Any:
        before = strategy.run(lambda: [tf.identity(v.value) for v in moving_statistics(trainer)])
        return strategy.run(agree, args=((run(), report), before))

    @tf.autograph.experimental.do_not_convert
    def execution(iterator: Any, steps: Any, report: Any) -> Any:
        first = iterator.get_next_as_optional()
        spec: list[Any] = []

        def run() -> Any:
            if pace is None and trainer.steps_per_execution == 1:
                return strategy.run(replica_step, args=(first.get_value(),))
            return several(iterator, first, steps)

        def train() -> Any:
            outputs = tf.experimental.Optional.from_value(finish(run, report))
            spec.append(outputs.element_spec)
            return outputs

        def end() -> Any:
            return tf.experimental.Optional.empty(spec[0] if spec else tf.TensorSpec([]))

        return tf.cond(first.has_value(), train, end)

    @tf.autograph.experimental.do_not_convert
    def on_batch(part: LocalBatch) -> Any:
        return finish(lambda: strategy.run(replica_step, args=(part,)), tf.constant(0.0))[0]

    if not trainer.run_eagerly:
        execution = tf.function(execution, reduce_retracing=True)
        on_batch = tf.function(on_batch, reduce_retracing=True)

    def function(iterator: Any) -> Any:
        if not isinstance(iterator, (tf.data.Iterator, tf.distribute.DistributedIterator)):
            logs = on_batch(local_batch(as_tensors(next(iter(iterator))), *worker_of(strategy)))
            return trainer._get_metrics_result_or_logs(logs)
        begin = time.perf_counter()
        steps, report = (pace.granted, pace.report()) if pace else (trainer.steps_per_execution, 0.0)
        outputs = execution(iterator, tf.constant(steps), tf.constant(report))
        if not outputs.has_value():
            raise StopIteration
        logs, reports = outputs.get_value()
        if pace:
            pace.ended(time.perf_counter() - begin, float(reports))
        return logs

    return function


def as_tensors(batch: Any) -> Any:
    """Convert a batch of arrays to tensors; None stays None."""
    import tensorflow as tf

    return tf.nest.map_structure(lambda t: t if t is None else tf.convert_to_tensor(t), batch)

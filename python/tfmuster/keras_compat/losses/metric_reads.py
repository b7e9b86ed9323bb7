"""Reset and read the metrics of a model with few collective operations.

TensorFlow reads a metric's variable as its sum over the workers, with a collective operation for each one. It
also does so after each assignment, to return a value that Keras does not use. At the beginning and the end
of an epoch that is four operations for each metric, of some milliseconds each.

What a program gives a metric outside of a step belongs to the first worker, and the others have zeros. In
TensorFlow each worker starts with the whole initial value, so that it counts several times, and gets its
share of an assigned one, which integers can't have: the counts of a confusion matrix would become smaller.

A checkpoint in the middle of an epoch keeps the values of each worker. If every worker continued with its
share of their sum, the last bit of a logged value would depend on where a training was interrupted.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .. import seams
from ..process import multi_worker, worker_of
from ..sums.collectives import sum_of_workers


def patch_metric_reads() -> None:
    """Patch Keras's variables, and how a model reads its metrics."""
    import tensorflow as tf

    stock_assign, stock_initialize = seams.ASSIGN.get(), seams.INITIALIZE.get()
    stock_results, pythonify_logs = seams.METRICS_RESULT.get(), seams.PYTHONIFY_LOGS.get()
    sync_on_read = seams.SYNC_ON_READ.get()
    # Older releases, such as 3.10, return numbers here, newer ones tensors.
    numbers = "pythonify_logs" in stock_results.__code__.co_names

    @functools.wraps(stock_assign)
    def direct_assign(self: Any, value: Any) -> None:
        held = seams.VALUE.of(self)
        if not isinstance(held, sync_on_read):
            stock_assign(self, value)
        elif workers_sum(held) and tf.distribute.in_cross_replica_context():
            give_to_first(held, tf.cast(value, held.dtype))
        else:
            held.assign(tf.cast(value, held.dtype), read_value=False)

    @functools.wraps(stock_initialize)
    def initialize(self: Any, value: Any) -> None:
        stock_initialize(self, value)
        held = seams.VALUE.of(self)
        if workers_sum(held) and not isinstance(value, tf.Variable):
            with tf.init_scope():
                own = held.distribute_strategy.experimental_local_results(held)[0]
                give_to_first(held, own.read_value())

    def workers_sum(held: Any) -> bool:
        """Return whether several workers have a part each of a variable that is read as a sum."""
        summed = isinstance(held, sync_on_read) and held.aggregation == tf.VariableAggregation.SUM
        return summed and multi_worker(held.distribute_strategy)

    def give_to_first(held: Any, value: Any) -> None:
        strategy = held.distribute_strategy
        for device, part in enumerate(strategy.experimental_local_results(held)):
            first = device == 0 and worker_of(strategy)[0] == 0
            part.assign(value if first else tf.zeros_like(value), read_value=False)

    @functools.wraps(stock_results)
    def get_metrics_result(self: Any) -> dict[str, Any]:
        strategy = seams.MODEL_STRATEGY.of(self)
        if not (multi_worker(strategy) and tf.executing_eagerly()) or _in_replica():
            return stock_results(self)  # type: ignore[no-any-return]
        metrics = self.metrics
        own = [[_own_sum(v, strategy) for v in metric.variables] for metric in metrics]
        flat = tf.nest.flatten(own)
        if not flat or any(value is None for value in flat) or len({value.dtype for value in flat}) > 1:
            return stock_results(self)  # type: ignore[no-any-return]
        packed = tf.concat([tf.reshape(value, [-1]) for value in flat], axis=0)
        sizes = [value.shape.num_elements() for value in flat]
        sums = iter(tf.split(sum_of_workers(strategy, packed), sizes))
        results: dict[str, Any] = {}
        for metric, values in zip(metrics, own, strict=True):
            result = metric.stateless_result([tf.reshape(next(sums), value.shape) for value in values])
            results |= result if isinstance(result, dict) else {metric.name: result}
        return pythonify_logs(results) if numbers else results  # type: ignore[no-any-return]

    def _in_replica() -> bool:
        return bool(tf.distribute.has_strategy() and not tf.distribute.in_cross_replica_context())

    def _own_sum(variable: Any, strategy: Any) -> Any:
        """Return this worker's part of a variable that is read as a sum; None for any other variable."""
        held = variable.value
        if not isinstance(held, sync_on_read) or held.aggregation != tf.VariableAggregation.SUM:
            return None
        parts = strategy.experimental_local_results(held)
        return parts[0].read_value() if len(parts) == 1 else None

    seams.ASSIGN.replace(direct_assign)
    seams.INITIALIZE.replace(initialize)
    seams.METRICS_RESULT.replace(get_metrics_result)


def read_metrics(variables: list[Any], strategy: Any) -> list[Any]:
    """Return the values of metrics' variables, each with a first axis of workers.

    With several workers, all of them must call it. One process, and workers with several devices, have one
    row: what TensorFlow reads.
    """
    if not variables or not _one_device_each(strategy):
        return [np.asarray(variable.numpy())[np.newaxis] for variable in variables]
    own = [np.asarray(_local(variable, strategy).numpy()) for variable in variables]
    worker, workers = worker_of(strategy)
    content = b"".join(value.tobytes() for value in own)
    # Adding zeros to integers keeps every bit, which adding floats would not.
    words = np.zeros((workers, -(-len(content) // 4)), np.int32)
    words[worker].view(np.uint8)[: len(content)] = np.frombuffer(content, np.uint8)
    rows = sum_of_workers(strategy, words).numpy().view(np.uint8)
    values, begin = [], 0
    for value in own:
        part = np.ascontiguousarray(rows[:, begin : begin + value.nbytes])
        values.append(part.view(value.dtype).reshape(workers, *value.shape))
        begin += value.nbytes
    return values


def restore_metrics(variables: list[Any], values: list[Any], strategy: Any) -> None:
    """Set metrics' variables to what `read_metrics` has returned, maybe for another number of workers."""
    for variable, value in zip(variables, values, strict=True):
        if _one_device_each(strategy) and len(value) == worker_of(strategy)[1]:
            _local(variable, strategy).assign(value[worker_of(strategy)[0]])
        else:
            variable.assign(value.sum(axis=0, dtype=value.dtype))


def _one_device_each(strategy: Any) -> bool:
    return multi_worker(strategy) and len(strategy.extended.worker_devices) == 1


def _local(variable: Any, strategy: Any) -> Any:
    """Return the part of a distributed variable that is on this worker's device."""
    return strategy.experimental_local_results(variable.value)[0]

"""Make metrics count in a step what they count in one process, and read them with few collective operations.

In a step, Keras's metrics add up numbers of rows, so the workers' states add up, too. Three things do not:

- the mean or sum of one number for a batch, such as the loss that a ``train_step`` tracks: each worker has a
  part of that number (:mod:`.loss_parts`);
- a metric that users write, whose state may be anything, such as a maximum: all workers compute it with the
  rows of all, and the first one keeps the state;
- what a step returns from ``Metric.result()``: it is computed anew from the sum of the workers' states.

Outside of steps, TensorFlow reads a metric's variable as its sum over the workers, with a collective
operation for each one, also after each assignment, to return a value that Keras does not use. At the
beginning and the end of an epoch that is four operations for each metric, of some milliseconds each.

What a program gives a metric outside of a step belongs to the first worker, and the others have zeros. In
TensorFlow each worker starts with the whole initial value, so that it counts several times, and gets its
share of an assigned one, which integers can't have: the counts of a confusion matrix would become smaller.

A checkpoint in the middle of an epoch keeps the values of each worker. If every worker continued with its
share of their sum, the last bit of a logged value would depend on where a training was interrupted.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...system.user_code import module_of
from .. import seams
from ..process import multi_worker, worker_of
from ..step_rows import OneNumberError, share_of_rows, whole_batch, works_on_whole_batch
from ..sums.collectives import replica_sum, sum_of_workers
from . import loss_parts
from .layer_states import whole_state
from .loss_reduction import whole_rows

if TYPE_CHECKING:
    import keras
    import numpy.typing as npt
    import tensorflow as tf

_step = threading.local()


class Log(NamedTuple):
    """Where a number that a step returns comes from."""

    #: The metric whose ``result()`` has it; None if no metric has it.
    metric: keras.Metric | None
    #: Its place in the flattened result.
    place: int
    #: Whether the workers' numbers add up. Else their mean is taken.
    adds_up: bool


class StepMetrics:
    """The metrics of a model while one of its steps is traced."""

    def __init__(self, trainer: keras.Model) -> None:
        self.all = every_metric(trainer)
        self.on_all_rows: list[keras.Metric] = []
        self._results: dict[int, tuple[tf.Tensor, keras.Metric, int]] = {}

    def record(self, metric: keras.Metric, result: object) -> None:
        """Note which tensors are a metric's result."""
        import tensorflow as tf

        for place, tensor in enumerate(tf.nest.flatten(result)):
            # A metric that has others returns what it has got from them.
            self._results.setdefault(id(tensor), (tensor, metric, place))

    def counted(self) -> list[Any]:
        """Return the variables of the metrics to which a worker without rows must add nothing."""
        alone = [metric for metric in self.all if metric not in self.on_all_rows]
        return [variable for metric in alone for variable in seams.METRIC_VARIABLES.of(metric)]

    def logs(self, outputs: object) -> tuple[list[Any], list[Log]]:
        """Return the flattened outputs of a step, numbers as the worker's parts, and where they come from."""
        import tensorflow as tf

        values, logs = [], []
        for output in tf.nest.flatten(outputs):
            tensor, metric, place = self._results.get(id(output), (None, None, 0))
            known = tensor is output and all("bool" not in v.dtype for v in metric.variables)
            value = tf.convert_to_tensor(output)
            part = not known and value.shape.rank == 0 and value.dtype.is_floating
            values.append(loss_parts.as_part(value) if part else value)
            logs.append(Log(metric if known else None, place, part))
        return values, logs


@contextlib.contextmanager
def metrics_of_step(trainer: keras.Model) -> Iterator[StepMetrics]:
    """Inside the block, a step of ``trainer`` is traced."""
    metrics = StepMetrics(trainer)

    def recorded(metric: keras.Metric, stock: Callable[[], object]) -> Any:
        value = stock()
        metrics.record(metric, value)
        return value

    with contextlib.ExitStack() as undo:

        def replace(metric: keras.Metric, name: str, function: Callable[..., object]) -> None:
            stock = getattr(metric, name)
            new = functools.wraps(stock)(functools.partial(function, metric, stock))
            object.__setattr__(metric, name, new)
            undo.callback(object.__delattr__, metric, name)

        _step.metrics = metrics
        undo.callback(setattr, _step, "metrics", None)
        for metric in metrics.all:
            if not module_of(metric).startswith("keras."):  # of the user
                replace(metric, "update_state", _update_on_all_rows)
            replace(metric, "result", recorded)
        yield metrics


def patch_metrics() -> None:
    """Patch the classes from which Keras's metrics are made."""
    import tensorflow as tf

    stock_mean, stock_sum = seams.MEAN_UPDATE.get(), seams.SUM_UPDATE.get()
    stock_wrapper = seams.WRAPPER_UPDATE.get()

    def part_of(metric: keras.Metric, values: tf.Tensor, sample_weight: object) -> tf.Tensor | None:
        """Return the worker's part of a number; None if these are values of rows."""
        if share_of_rows() is None or works_on_whole_batch() or sample_weight is not None:
            return None
        if isinstance(values, (tf.RaggedTensor, tf.SparseTensor)):
            return None
        values = tf.convert_to_tensor(values)
        return None if values.shape.rank != 0 else loss_parts.as_part(tf.cast(values, metric.dtype))

    @seams.MEAN_UPDATE.wrap
    def update_mean(self: Any, values: tf.Tensor, sample_weight: object = None) -> Any:
        if (part := part_of(self, values, sample_weight)) is None:
            return stock_mean(self, values, sample_weight)
        # The workers' weights add up to one batch.
        share = tf.cast(share_of_rows(), part.dtype)
        return stock_mean(self, tf.math.divide_no_nan(part, share), share)

    @seams.SUM_UPDATE.wrap
    def update_sum(self: Any, values: tf.Tensor, sample_weight: object = None) -> Any:
        part = part_of(self, values, sample_weight)
        return stock_sum(self, values if part is None else part, sample_weight)

    @seams.WRAPPER_UPDATE.wrap
    def update_wrapped(self: Any, y_true: object, y_pred: object, sample_weight: object = None) -> Any:
        if share_of_rows() is None or works_on_whole_batch():
            return stock_wrapper(self, y_true, y_pred, sample_weight)
        function = seams.WRAPPER_FUNCTION.of(self)

        def of_rows(*args: object, **kwargs: object) -> Any:
            values = function(*args, **kwargs)
            # It may be a number of Python, too.
            if len(getattr(values, "shape", ())) == 0:
                raise OneNumberError
            return values

        seams.WRAPPER_FUNCTION.set(self, of_rows)
        try:
            return stock_wrapper(self, y_true, y_pred, sample_weight)
        except OneNumberError:
            seams.WRAPPER_FUNCTION.set(self, function)
            stock = functools.partial(stock_wrapper, self)
            return _update_on_all_rows(self, stock, y_true, y_pred, sample_weight)
        finally:
            seams.WRAPPER_FUNCTION.set(self, function)


def every_metric(trainer: keras.Model) -> list[keras.Metric]:
    """Return all metrics of a model, those inside of others included."""
    by_id: dict[int, keras.Metric] = {}
    waiting = list(trainer.metrics)
    while waiting:
        metric = waiting.pop(0)
        if id(metric) not in by_id:
            by_id[id(metric)] = metric
            waiting += [*getattr(metric, "metrics", ()), *seams.METRICS_INSIDE.of(metric)]
    return list(by_id.values())


def _update_on_all_rows(
    metric: keras.Metric, stock: Callable[..., object], *args: object, **kwargs: object
) -> Any:
    """Update a metric with the rows of all workers; the first worker keeps the state, the others zeros."""
    import tensorflow as tf

    if share_of_rows() is None or works_on_whole_batch():
        return stock(*args, **kwargs)
    if (metrics := getattr(_step, "metrics", None)) is not None:
        metrics.on_all_rows.append(metric)
    args, kwargs = tf.nest.map_structure(_of_all_workers, (args, kwargs))
    with whole_batch():
        updated = stock(*args, **kwargs)
    first = tf.distribute.get_replica_context().replica_id_in_sync_group == 0
    for variable in metric.variables:
        variable.assign(tf.where(first, variable.value, tf.zeros_like(variable.value)))
    return updated


def _of_all_workers(value: Any) -> Any:
    """Return the rows of all workers, or the number of one process of which each worker has a part."""
    import tensorflow as tf

    if not tf.is_tensor(value) or value.shape.rank is None:
        return value
    if value.shape.rank > 0:
        return whole_rows(value)
    return replica_sum(loss_parts.as_part(value)) if value.dtype.is_floating else value


def patch_metric_reads() -> None:
    """Patch Keras's variables, and how a model reads its metrics."""
    import tensorflow as tf

    stock_assign, stock_initialize = seams.ASSIGN.get(), seams.INITIALIZE.get()
    stock_results, pythonify_logs = seams.METRICS_RESULT.get(), seams.PYTHONIFY_LOGS.get()
    sync_on_read = seams.SYNC_ON_READ.get()
    # Older releases, such as 3.10, return numbers here, newer ones tensors.
    numbers = "pythonify_logs" in stock_results.__code__.co_names

    @seams.ASSIGN.wrap
    def direct_assign(self: Any, value: object) -> None:
        held = seams.VALUE.of(self)
        if not isinstance(held, sync_on_read):
            stock_assign(self, whole_state(self, value))
        elif workers_sum(held) and tf.distribute.in_cross_replica_context():
            give_to_first(held, tf.cast(value, held.dtype))
        else:
            held.assign(tf.cast(value, held.dtype), read_value=False)

    @seams.INITIALIZE.wrap
    def initialize(self: Any, value: object) -> None:
        stock_initialize(self, value)
        held = seams.VALUE.of(self)
        if workers_sum(held) and not isinstance(value, tf.Variable):
            with tf.init_scope():
                own = held.distribute_strategy.experimental_local_results(held)[0]
                give_to_first(held, own.read_value())

    def is_sum(held: tf.Variable) -> bool:
        """Return whether a variable is read as the sum of its parts."""
        return isinstance(held, sync_on_read) and held.aggregation == tf.VariableAggregation.SUM

    def workers_sum(held: tf.Variable) -> bool:
        """Return whether several workers have a part each of such a variable."""
        return is_sum(held) and multi_worker(held.distribute_strategy)

    def give_to_first(held: tf.Variable, value: tf.Tensor) -> None:
        strategy = held.distribute_strategy
        for device, part in enumerate(strategy.experimental_local_results(held)):
            first = device == 0 and worker_of(strategy)[0] == 0
            part.assign(value if first else tf.zeros_like(value), read_value=False)

    @seams.METRICS_RESULT.wrap
    def get_metrics_result(self: Any) -> dict[str, Any]:
        strategy = seams.MODEL_STRATEGY.of(self)
        in_replica = tf.distribute.has_strategy() and not tf.distribute.in_cross_replica_context()
        if not (multi_worker(strategy) and tf.executing_eagerly()) or in_replica:
            return stock_results(self)  # type: ignore[no-any-return]
        metrics = self.metrics
        own = [[own_part(v.value, strategy) for v in metric.variables] for metric in metrics]
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

    def own_part(held: tf.Variable, strategy: tf.distribute.Strategy) -> Any:
        """Return this worker's part of a variable that is read as a sum; None for any other variable."""
        parts = strategy.experimental_local_results(held) if is_sum(held) else []
        return parts[0].read_value() if len(parts) == 1 else None


def read_metrics(variables: list[keras.Variable], strategy: tf.distribute.Strategy) -> list[Any]:
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


def restore_metrics(
    variables: list[keras.Variable], values: list[npt.NDArray[np.generic]], strategy: tf.distribute.Strategy
) -> None:
    """Set metrics' variables to what `read_metrics` has returned, maybe for another number of workers."""
    for variable, value in zip(variables, values, strict=True):
        if _one_device_each(strategy) and len(value) == worker_of(strategy)[1]:
            _local(variable, strategy).assign(value[worker_of(strategy)[0]])
        else:
            variable.assign(value.sum(axis=0, dtype=value.dtype))


def _one_device_each(strategy: tf.distribute.Strategy) -> bool:
    return multi_worker(strategy) and len(strategy.extended.worker_devices) == 1


def _local(variable: keras.Variable, strategy: tf.distribute.Strategy) -> Any:
    """Return the part of a distributed variable that is on this worker's device."""
    return strategy.experimental_local_results(variable.value)[0]

"""Make metrics count in a step what they count in one process.

Keras's metrics add up numbers of rows, so the workers' states add up, too. Three things do not:

- the mean or sum of one number for a batch, such as the loss that a ``train_step`` tracks: each worker has a
  part of that number (:mod:`.loss_parts`);
- a metric that users write, whose state may be anything, such as a maximum: all workers compute it with the
  rows of all, and the first one keeps the state;
- what a step returns from ``Metric.result()``: it is computed anew from the sum of the workers' states.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from .. import seams
from ..rows import OneNumberError, share_of_rows, whole_batch, works_on_whole_batch
from ..sums.collectives import replica_sum
from . import loss_parts
from .loss_reduction import whole_rows

_step = threading.local()


class Log(NamedTuple):
    """Where a number that a step returns comes from.

    Attributes
    ----------
    metric, place
        The metric whose ``result()`` has it, at this place of the flattened result; None if no metric has it.
    adds_up
        Whether the workers' numbers add up. Else their mean is taken.
    """

    metric: Any
    place: int
    adds_up: bool


class StepMetrics:
    """The metrics of a model while one of its steps is traced."""

    def __init__(self, trainer: Any) -> None:
        self.all = _every_metric(trainer)
        self.on_all_rows: list[Any] = []
        self._results: dict[int, tuple[Any, Any, int]] = {}

    def record(self, metric: Any, result: Any) -> None:
        """Note which tensors are a metric's result."""
        import tensorflow as tf

        for place, tensor in enumerate(tf.nest.flatten(result)):
            self._results[id(tensor)] = (tensor, metric, place)

    def counted(self) -> list[Any]:
        """Return the variables of the metrics to which a worker without rows must add nothing."""
        alone = [metric for metric in self.all if metric not in self.on_all_rows]
        return [variable for metric in alone for variable in seams.METRIC_VARIABLES.of(metric)]

    def logs(self, outputs: Any) -> tuple[list[Any], list[Log]]:
        """Return the flattened outputs of a step, numbers as the worker's parts, and where they come from."""
        import tensorflow as tf

        values, logs = [], []
        for output in tf.nest.flatten(outputs):
            tensor, metric, place = self._results.get(id(output), (None, None, 0))
            known = tensor is output and all(v.dtype.startswith("float") for v in metric.variables)
            value = tf.convert_to_tensor(output)
            part = not known and value.shape.rank == 0 and value.dtype.is_floating
            values.append(loss_parts.as_part(value) if part else value)
            logs.append(Log(metric if known else None, place, part))
        return values, logs


@contextlib.contextmanager
def metrics_of_step(trainer: Any) -> Iterator[StepMetrics]:
    """Inside the block, a step of ``trainer`` is traced."""
    metrics = StepMetrics(trainer)
    set_here: list[tuple[Any, str]] = []

    def replace(metric: Any, name: str, function: Callable[..., Any]) -> None:
        object.__setattr__(metric, name, functools.wraps(getattr(metric, name))(function))
        set_here.append((metric, name))

    def recorded(metric: Any, stock: Callable[[], Any]) -> Any:
        value = stock()
        metrics.record(metric, value)
        return value

    _step.metrics = metrics
    try:
        for metric in metrics.all:
            if _of_user(metric):
                replace(
                    metric,
                    "update_state",
                    functools.partial(_update_on_all_rows, metric, metric.update_state),
                )
            replace(metric, "result", functools.partial(recorded, metric, metric.result))
        yield metrics
    finally:
        _step.metrics = None
        for metric, name in set_here:
            object.__delattr__(metric, name)


def patch_metrics() -> None:
    """Patch the classes from which Keras's metrics are made."""
    import tensorflow as tf

    stock_mean, stock_sum = seams.MEAN_UPDATE.get(), seams.SUM_UPDATE.get()
    stock_wrapper = seams.WRAPPER_UPDATE.get()

    def part_of(metric: Any, values: Any, sample_weight: Any) -> Any:
        """Return the worker's part of a number; None if these are values of rows."""
        if share_of_rows() is None or works_on_whole_batch() or sample_weight is not None:
            return None
        if isinstance(values, (tf.RaggedTensor, tf.SparseTensor)):
            return None
        values = tf.convert_to_tensor(values)
        return None if values.shape.rank != 0 else loss_parts.as_part(tf.cast(values, metric.dtype))

    @functools.wraps(stock_mean)
    def update_mean(self: Any, values: Any, sample_weight: Any = None) -> Any:
        if (part := part_of(self, values, sample_weight)) is None:
            return stock_mean(self, values, sample_weight)
        # The workers' weights add up to one batch.
        share = tf.cast(share_of_rows(), part.dtype)
        return stock_mean(self, tf.math.divide_no_nan(part, share), share)

    @functools.wraps(stock_sum)
    def update_sum(self: Any, values: Any, sample_weight: Any = None) -> Any:
        part = part_of(self, values, sample_weight)
        return stock_sum(self, values if part is None else part, sample_weight)

    @functools.wraps(stock_wrapper)
    def update_wrapped(self: Any, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        if share_of_rows() is None or works_on_whole_batch():
            return stock_wrapper(self, y_true, y_pred, sample_weight)
        function = seams.WRAPPER_FUNCTION.of(self)

        def of_rows(*args: Any, **kwargs: Any) -> Any:
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

    seams.MEAN_UPDATE.replace(update_mean)
    seams.SUM_UPDATE.replace(update_sum)
    seams.WRAPPER_UPDATE.replace(update_wrapped)


def _every_metric(trainer: Any) -> list[Any]:
    """Return all metrics of a model, those inside of others included."""
    found: dict[int, Any] = {}
    waiting = list(trainer.metrics)
    while waiting:
        metric = waiting.pop(0)
        if id(metric) not in found:
            found[id(metric)] = metric
            waiting += [*getattr(metric, "metrics", ()), *seams.METRICS_INSIDE.of(metric)]
    return list(found.values())


def _of_user(metric: Any) -> bool:
    return not type(metric).__module__.startswith("keras.")


def _update_on_all_rows(metric: Any, stock: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Update a metric with the rows of all workers; the first worker keeps the state, the others zeros."""
    import tensorflow as tf

    if share_of_rows() is None or works_on_whole_batch():
        return stock(*args, **kwargs)
    if (metrics := getattr(_step, "metrics", None)) is not None:
        metrics.on_all_rows.append(metric)
    args, kwargs = tf.nest.map_structure(_of_all_workers, (args, kwargs))
    with whole_batch():
        done = stock(*args, **kwargs)
    first = tf.distribute.get_replica_context().replica_id_in_sync_group == 0
    for variable in metric.variables:
        variable.assign(tf.where(first, variable.value, tf.zeros_like(variable.value)))
    return done


def _of_all_workers(value: Any) -> Any:
    """Return the rows of all workers, or the number of one process of which each worker has a part."""
    import tensorflow as tf

    if not tf.is_tensor(value) or value.shape.rank is None:
        return value
    if value.shape.rank > 0:
        return whole_rows(value)
    if not value.dtype.is_floating:
        return value
    return replica_sum(loss_parts.as_part(value))

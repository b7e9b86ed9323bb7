"""Reduce losses as one process does: by what the whole global batch holds, not by what one worker has.

In a step, each worker computes a part of the loss, and the parts add up to the loss of one process. So do
their gradients. A part is the sum over the worker's rows, divided by what one process divides by:

- the number of rows: a worker knows it for the whole batch, so its mean is multiplied by its share;
- the number of rows that are not masked, or the sum of the sample weights: the workers add up their numbers,
  one small collective for each loss that divides by them;
- a loss that is one number for the whole batch, such as a function that returns ``mean(square(y - p))``, or
  Dice: no part of it can be computed from a part of the rows. The workers gather labels and predictions, each
  computes the loss of the whole batch, and only its own rows get a gradient.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ...errors import StrategyError
from ...words import Argument, Words
from .. import seams
from ..process import multi_worker
from ..step_rows import (
    OneNumberError,
    check_together,
    place_of_rows,
    share_of_rows,
    whole_batch,
    works_on_whole_batch,
)
from ..sums.collectives import narrowed, replica_sum, widened
from . import loss_parts
from .graph_rows import is_of_all_rows, mark_all_rows

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

#: Marks a loss that needs the rows of all workers.
WHOLE_BATCH: Final = "tfmuster_whole_batch"


def patch_loss() -> None:
    """Replace the reductions of Keras's losses; outside of a step they stay Keras's own."""
    import tensorflow as tf

    stock_call, stock_reduce = seams.LOSS_CALL.get(), seams.REDUCE_VALUES.get()
    stock_mask, stock_scale, stock_unscale = (
        seam.get() for seam in (seams.APPLY_MASK, seams.SCALE_LOSS, seams.UNSCALE_LOSS)
    )
    stock_weighted, stock_build = seams.REDUCE_WEIGHTED_VALUES.get(), seams.BUILD_LOSS.get()
    stock_aggregate = seams.ADDITIONAL_LOSS.get()

    @seams.LOSS_CALL.wrap
    def call(self: Any, y_true: object, y_pred: object, sample_weight: object = None) -> Any:
        if share_of_rows() is None:
            return stock_call(self, y_true, y_pred, sample_weight)
        loss_parts.note_call(self)
        if is_of_all_rows((y_true, y_pred)):
            with whole_batch():
                whole = stock_call(self, y_true, y_pred, sample_weight)
            return loss_parts.mark_part(whole * tf.cast(share_of_rows(), whole.dtype))
        if not (getattr(self, WHOLE_BATCH, False) or _compares_rows(self)):
            try:
                return loss_parts.mark_part(stock_call(self, y_true, y_pred, sample_weight))
            except OneNumberError:
                setattr(self, WHOLE_BATCH, True)
        of_whole = functools.partial(stock_call, self)
        return loss_parts.mark_part(_of_whole_batch(of_whole, y_true, y_pred, sample_weight))

    @seams.REDUCE_VALUES.wrap
    def reduce_values(
        values: tf.Tensor, sample_weight: object = None, reduction: object = "sum_over_batch_size"
    ) -> Any:
        if (share := share_of_rows()) is None:
            return stock_reduce(values, sample_weight, reduction)
        if reduction == "mean_with_sample_weight" and sample_weight is not None and values.shape.rank:
            present = tf.cast(share > 0, values.dtype)
            own_weight = tf.cast(tf.reduce_sum(sample_weight), values.dtype) * present
            weights = replica_sum(tf.stop_gradient(tf.stack([own_weight])))[0]
            return tf.math.divide_no_nan(tf.reduce_sum(values) * present, weights)
        return stock_reduce(values, sample_weight, reduction)

    @seams.REDUCE_WEIGHTED_VALUES.wrap
    def reduce_weighted_values(values: tf.Tensor, *args: object, **kwargs: object) -> Any:
        of_part = share_of_rows() is not None and not works_on_whole_batch()
        if of_part and tf.convert_to_tensor(values).shape.rank == 0:
            raise OneNumberError
        return stock_weighted(values, *args, **kwargs)

    @seams.APPLY_MASK.wrap
    def apply_mask(sample_weight: object, mask: object, dtype: object, reduction: object) -> Any:
        if mask is None or share_of_rows() is None or reduction not in ("mean", "sum_over_batch_size"):
            return stock_mask(sample_weight, mask, dtype, reduction)
        # Keras multiplies by all entries over valid ones, and divides by all entries later.
        present = tf.cast(share_of_rows() > 0, dtype)
        own = tf.stack([tf.cast(tf.size(mask), dtype), tf.reduce_sum(tf.cast(mask, dtype))])
        entries, valid = tf.unstack(replica_sum(tf.stop_gradient(own * present)))
        weights = tf.where(tf.cast(mask, tf.bool), tf.math.divide_no_nan(entries, valid), 0)
        # Let Keras merge the weights.
        return stock_mask(sample_weight, weights, dtype, "sum")

    @seams.SCALE_LOSS.wrap
    def scale(value: tf.Tensor) -> Any:
        if (share := share_of_rows()) is None:
            return value if _outside_of_steps() else stock_scale(value)
        if works_on_whole_batch():
            return value
        # The mean over no rows is NaN, so it must not enter the sum.
        share = tf.cast(share, value.dtype)
        part = loss_parts.as_part(value) if loss_parts.is_additional() else value * share
        return loss_parts.mark_part(tf.where(share > 0, part, tf.zeros_like(value)))

    @seams.UNSCALE_LOSS.wrap
    def unscale(value: tf.Tensor) -> Any:
        if (share := share_of_rows()) is None:
            return value if _outside_of_steps() else stock_unscale(value)
        if value.shape.rank == 0:
            value = loss_parts.as_part(value)  # a model's own compute_loss may return a mean
        return tf.math.divide_no_nan(value, tf.cast(share, value.dtype))

    @seams.ADDITIONAL_LOSS.wrap
    def aggregate(self: Any, loss: tf.Tensor) -> Any:
        with loss_parts.additional_loss():
            return stock_aggregate(self, loss)

    @seams.BUILD_LOSS.wrap
    def build(self: Any, *args: object, **kwargs: object) -> None:
        stock_build(self, *args, **kwargs)
        for tracker in self.metrics:
            _weigh_by_share(tracker)


def _outside_of_steps() -> bool:
    """Return whether a loss is computed for the program itself, and not as the part of a worker."""
    import tensorflow as tf

    return tf.distribute.in_cross_replica_context() and multi_worker(tf.distribute.get_strategy())


def _compares_rows(loss: keras.losses.Loss) -> bool:
    """Return whether a loss of Keras computes with several rows at once."""
    import keras

    circle = getattr(keras.losses, "Circle", ())  # since Keras 3.6
    axis = getattr(loss, "axis", None)
    return isinstance(loss, circle) or (isinstance(axis, (list, tuple)) and 0 in axis)


def _of_whole_batch(
    loss: Callable[..., tf.Tensor], y_true: object, y_pred: object, sample_weight: object
) -> tf.Tensor:
    """Return this worker's part of a loss that needs the rows of all workers.

    Its value is the worker's share, its gradient that of the whole loss for the worker's own rows: both add
    up.
    """
    import tensorflow as tf

    set_mask = seams.SET_MASK.get()
    masks = tf.nest.map_structure(seams.GET_MASK.get(), y_pred)
    gathered = tf.nest.map_structure(whole_rows, (y_true, y_pred, sample_weight))
    tf.nest.map_structure(
        lambda rows, mask: mask is None or set_mask(rows, whole_rows(mask)), gathered[1], masks
    )
    with whole_batch():
        whole = loss(*gathered)
    return whole + tf.stop_gradient(whole * tf.cast(share_of_rows(), whole.dtype) - whole)


def whole_rows(rows: tf.Tensor | tf.RaggedTensor | None) -> Any:
    """Return the rows of all workers, in their order; the gradient goes to the worker's own rows."""
    import tensorflow as tf

    if rows is None:
        return None
    if not isinstance(rows, tf.RaggedTensor):
        rows = tf.convert_to_tensor(rows)
        return tf.ensure_shape(_gather(_that_count(rows)), [None, *rows.shape[1:]])
    own = _that_count(rows)
    lengths = [_gather(row_lengths) for row_lengths in own.nested_row_lengths()]
    return tf.RaggedTensor.from_nested_row_lengths(_gather(own.flat_values), lengths, validate=False)


def _that_count(rows: tf.Tensor | tf.RaggedTensor) -> tf.Tensor | tf.RaggedTensor:
    """Return the rows that count: a worker without rows has read a placeholder row."""
    import tensorflow as tf

    read = rows.nrows(tf.int64) if isinstance(rows, tf.RaggedTensor) else tf.shape(rows, tf.int64)[0]
    return rows[: tf.where(share_of_rows() > 0, read, 0)]


def _gather(own: tf.Tensor, *, of_all: bool = False) -> tf.Tensor:
    """Concatenate the tensors of all workers, in their order.

    The gradient is that of the worker's own rows. With ``of_all``, it is the sum of those that all workers
    have for these rows.
    """
    import tensorflow as tf

    @tf.custom_gradient
    def gathered(own: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        context = tf.distribute.get_replica_context()
        # That of TensorFlow, which a step's context calls all_rows() for.
        gather = functools.partial(tf.distribute.ReplicaContext.all_gather, context, axis=0)
        everyone = narrowed(gather(widened(own)), own.dtype)
        counts = gather(tf.shape(own)[:1])
        start = tf.reduce_sum(counts[: context.replica_id_in_sync_group])

        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            if of_all:
                upstream = narrowed(replica_sum(widened(upstream)), upstream.dtype)
            return upstream[start : start + tf.shape(own)[0]]

        return everyone, gradient

    return gathered(own)


def all_rows(tensor: tf.Tensor) -> tf.Tensor:
    """Return the rows of all workers in a step of ``fit`` or ``evaluate``; elsewhere the argument.

    The gradient of the workers' losses goes to the rows' owners. Raises a StrategyError in a step that has no
    graph, in which a loss can't be told to be one of all rows.
    """
    import tensorflow as tf

    if share_of_rows() is None or works_on_whole_batch():
        return tensor
    if tf.executing_eagerly():
        raise StrategyError(
            "all_rows() needs the graph of a step.",
            found=Words("{}", Argument("run_eagerly", True)),
            fix=Words("leave {} out", Argument("run_eagerly", True)),
            strategy="multi_worker_mirrored",
            reason="run-eagerly",
        )
    check_together("the model calls all_rows()")
    own = _that_count(tf.convert_to_tensor(tensor))
    everyone = tf.ensure_shape(_gather(own, of_all=True), [None, *own.shape[1:]])
    mark_all_rows(everyone)
    return everyone


def _weigh_by_share(tracker: keras.metrics.Mean) -> None:
    """Make the tracker of an output's loss add up to the loss of one process.

    Keras weighs a batch by its rows if their number is known when it traces the step. Else each batch counts
    once, and so the workers' parts of a batch must count once together.
    """
    stock_update = tracker.update_state

    @functools.wraps(stock_update)
    def update_state(values: object, sample_weight: object = None) -> Any:
        if sample_weight is None and (place := place_of_rows()) is not None:
            sample_weight = place.rows if place.known else share_of_rows()
        return stock_update(values, sample_weight)

    tracker.update_state = update_state

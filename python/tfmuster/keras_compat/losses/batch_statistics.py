"""Let BatchNormalization normalize with the statistics of the whole global batch, as in one process.

In a step of ``fit``, the workers add up the moments of their rows, and in its gradient how the loss changes
with them: two small collectives for each layer. A row then has the output and the gradient that it has in one
process, and all workers get equal moving statistics. With ``batch_norm="local"``, a layer does so only if it
has ``synchronized=True``, and else normalizes with the worker's own rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...words import Argument, Words
from .. import seams
from ..choices import BATCH_NORM
from ..process import multi_worker
from ..step_rows import check_together, in_step, share_of_rows
from ..sums.collectives import replica_sum

if TYPE_CHECKING:
    import keras
    import tensorflow as tf


def synchronized(layer: keras.layers.Layer, strategy: tf.distribute.Strategy) -> bool:
    """Return whether a layer normalizes with the rows of all workers in a step of ``fit``."""
    import keras

    if not (isinstance(layer, keras.layers.BatchNormalization) and multi_worker(strategy)):
        return False
    return layer.synchronized or BATCH_NORM.of(strategy) == "synchronized"


def patch_batch_statistics() -> None:
    """Patch where BatchNormalization takes the moments of a batch."""
    import tensorflow as tf

    stock = seams.BATCH_MOMENTS.get()

    @seams.BATCH_MOMENTS.wrap
    def moments(self: Any, inputs: tf.Tensor, mask: tf.Tensor | None) -> Any:
        if not (in_step() and synchronized(self, tf.distribute.get_strategy())):
            return stock(self, inputs, mask)
        how = Argument("training", True)
        check_together(Words("the layer {} normalizes with the batch ({})", self.name, how))
        # A worker without rows has a placeholder row.
        share = share_of_rows()
        present = tf.constant(1, inputs.dtype) if share is None else tf.cast(share > 0, inputs.dtype)
        axes = [axis for axis in range(inputs.shape.rank) if axis != self.axis % inputs.shape.rank]
        if mask is not None:
            mask = tf.broadcast_to(tf.cast(mask, tf.bool)[..., None], tf.shape(inputs))
        return _moments_of_all(inputs, mask, present, axes)


def _moments_of_all(
    rows: tf.Tensor, mask: tf.Tensor | None, present: tf.Tensor, axes: list[int]
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return mean and variance over ``axes`` of what all workers have; ``present`` is 0 or 1."""
    import tensorflow as tf

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def moments(rows: tf.Tensor) -> Any:
        # As one process computes them: the square of a large mean would take a small variance's digits.
        if mask is None:
            own_mean, own_variance = tf.nn.moments(rows, axes, keepdims=True)
            counts = present * tf.cast(tf.size(rows) / tf.size(own_mean), rows.dtype)
            count, used = tf.fill(tf.shape(own_mean), counts), present
        else:
            used = present * tf.cast(mask, rows.dtype)
            count = tf.reduce_sum(used, axes, keepdims=True)

            def mean_of(values: tf.Tensor) -> tf.Tensor:
                total = tf.reduce_sum(tf.where(mask, values, 0), axes, keepdims=True)
                return tf.math.divide_no_nan(present * total, count)

            own_mean = mean_of(rows)
            own_variance = mean_of(tf.square(rows - own_mean))
        # For the same reason these are added up in float64.
        counted, centre, spread = (tf.cast(part, tf.float64) for part in (count, own_mean, own_variance))
        sums = replica_sum(counted * tf.stack([tf.ones_like(centre), centre, spread + tf.square(centre)]))
        mean, variance = tf.math.divide_no_nan(sums[1], sums[0]), tf.math.divide_no_nan(sums[2], sums[0])
        variance = tf.maximum(variance - tf.square(mean), 0)
        mean, variance = tf.cast(mean, rows.dtype), tf.cast(variance, rows.dtype)
        scale = tf.math.divide_no_nan(used, tf.cast(sums[0], rows.dtype))

        def gradient(of_mean: tf.Tensor, of_variance: tf.Tensor) -> tf.Tensor:
            changes = replica_sum(tf.stack([of_mean, of_variance]))
            by_mean, by_variance = (tf.reshape(change, mean.shape) for change in tf.unstack(changes))
            change = scale * (by_mean + 2 * by_variance * (rows - mean))
            return change if mask is None else tf.where(mask, change, 0)

        return (tf.reshape(mean, [-1]), tf.reshape(variance, [-1])), gradient

    return moments(rows)  # type: ignore[no-any-return]

"""Let layers that look at all rows of a batch see those of all workers.

Keras's `Equalization`, which `RandAugment` contains, spreads the values of each color by the histogram of the
whole batch, and not of each image.
"""

from __future__ import annotations

import functools
from typing import Any

from .. import seams
from ..rows.step_rows import place_of_rows
from ..sums.collectives import replica_sum
from .random_rows import replica_of_several


def patch_equalization() -> None:
    """Sum the histograms of the workers in a step of theirs."""
    stock = seams.HISTOGRAM.get()

    @functools.wraps(stock)
    def histogram(self: Any, *args: Any, **kwargs: Any) -> Any:
        import tensorflow as tf

        own, place = stock(self, *args, **kwargs), place_of_rows()
        if place is None or replica_of_several() is None:
            return own
        # A worker without rows has read a placeholder row. Numbers of pixels are exact in 64 bits.
        counted = tf.where(place.rows > 0, tf.cast(own, tf.float64), 0.0)
        return tf.cast(replica_sum(counted), own.dtype)

    seams.HISTOGRAM.replace(histogram)

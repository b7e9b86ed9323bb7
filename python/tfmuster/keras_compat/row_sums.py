"""Sums over the rows that a worker reads: they tell whether all workers read the same, in one order."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import tensorflow as tf

#: How many values of a row are looked at.
_MOST_VALUES = 16
#: An odd number with bits all over, whose products spread small differences.
_SPREAD = -0x61C8864680B583EB
#: Fractions of its multiples lie evenly between 0 and 1.
_GOLDEN = 0.6180339887498949


def weight_of_step(number: int | tf.Tensor) -> float | tf.Tensor:
    """Return what the sums of a step are multiplied by, so that the order of steps counts."""
    return 1.0 + number * _GOLDEN % 1.0


def sums_of_rows(batch: object) -> tf.Tensor:
    """Return sums of some values of each row, in which the order of rows counts; float64 of shape [3].

    The first sum is a fingerprint of whole numbers and texts; the second one is of other numbers, which
    machines may compute in slightly different ways; the third one of the sizes of these.
    """
    import tensorflow as tf

    exact, weighted, sizes = tf.constant(0, tf.int64), tf.zeros([], tf.float64), tf.zeros([], tf.float64)
    for tensor in tf.nest.flatten(batch, expand_composites=True):
        if not isinstance(tensor, tf.Tensor) or not tensor.shape.rank:
            continue
        if tensor.dtype.is_floating:
            some = tensor
            if tensor.shape.rank > 1:
                values = tf.reshape(tensor, [tf.shape(tensor)[0], -1])
                size = tensor.shape[1:].num_elements() or tf.shape(values)[1]
                some = tf.reshape(values[:, :: size // _MOST_VALUES + 1], [-1])
            numbers = tf.cast(some, tf.float64)
            places = tf.range(tf.size(some), dtype=tf.float64)
            weighted += tf.reduce_sum(numbers * (places * _GOLDEN % 1.0))
            sizes += tf.reduce_sum(tf.abs(numbers))
        elif tensor.dtype.is_integer or tensor.dtype in (tf.bool, tf.string):
            # One row of all bytes, so that the order of rows counts.
            digest = tf.raw_ops.Fingerprint(data=tf.reshape(tensor, [1, -1]), method="farmhash64")
            exact = exact * _SPREAD + tf.bitcast(digest, tf.int64)[0]
    # As many bits as a float64 holds, with room for a sum.
    exact = tf.cast(tf.bitwise.bitwise_and(exact, tf.constant(2**48 - 1, tf.int64)), tf.float64)
    return tf.stack([exact, weighted, sizes])


def sums_of_arrays(batch: Iterable[object]) -> npt.NDArray[np.float64]:
    """Return the same for arrays, to compare with each other only: all their values; float64 of shape [3]."""
    exact, weighted, sizes = 0, 0.0, 0.0
    for array in batch:
        if not isinstance(array, np.ndarray) or not array.ndim:
            continue
        if array.dtype.kind == "f":
            numbers = array.astype(np.float64).ravel()
            weighted += float(numbers @ (np.arange(numbers.size) * _GOLDEN % 1.0))
            sizes += float(np.abs(numbers).sum())
        else:
            exact = zlib.crc32(array.tobytes(), exact)
    return np.array([exact, weighted, sizes])

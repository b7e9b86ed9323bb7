"""Gather the rows of all workers' tensors: directly between CPUs, otherwise by TensorFlow's collectives.

A direct gather is a sum: each worker has zeros in place of the others' rows. All values are added as integers
of their own bits, which changes none of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .strategy_info import worker_of
from .sums import group_of, narrowed, sum_directly, widened


def gather_rows(strategy: Any, tensors: Sequence[Any]) -> list[Any]:
    """Return for each tensor the rows of all workers, in the order of the workers.

    Parameters
    ----------
    strategy : tf.distribute.Strategy
        One with several workers. Without a group (`group_of`), call it in the cross-replica context.
    tensors : sequence of tf.Tensor
        Numbers or booleans of a known rank, at least 1. Only the number of rows may differ between workers.
    """
    wide = [widened(tensor) for tensor in tensors]
    if group_of(strategy) is None:
        gathered = [strategy.gather(tensor, axis=0) for tensor in wide]
    else:
        gathered = _gather_directly(strategy, wide)
    return [narrowed(rows, tensor.dtype) for rows, tensor in zip(gathered, tensors, strict=True)]


def _gather_directly(strategy: Any, tensors: list[Any]) -> list[Any]:
    import tensorflow as tf

    worker, workers = worker_of(strategy)
    words = [tf.bitcast(each, tf.int32 if each.dtype.size == 4 else tf.int64) for each in tensors]
    own = tf.stack([tf.shape(each, tf.int64)[0] for each in words])
    (rows,) = sum_directly(strategy, [tf.pad(own[None], [[worker, workers - 1 - worker], [0, 0]])])
    before, after = tf.reduce_sum(rows[:worker], axis=0), tf.reduce_sum(rows[worker + 1 :], axis=0)
    padded = [
        tf.pad(each, tf.pad([[before[i], after[i]]], [[0, each.shape.rank - 1], [0, 0]]))
        for i, each in enumerate(words)
    ]
    found = []
    for total, tensor in zip(sum_directly(strategy, padded), tensors, strict=True):
        gathered = tf.bitcast(total, tensor.dtype)
        found.append(tf.ensure_shape(gathered, [None, *tensor.shape[1:]]))
    return found

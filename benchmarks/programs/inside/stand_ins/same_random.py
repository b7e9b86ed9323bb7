"""``tf.random`` with the numbers of ``keras.random``, which several workers draw as one process does."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf


def normal(shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = "float32", **_: Any) -> Any:
    """Draw as ``tf.random.normal`` does."""
    return mean + stddev * keras.random.normal(shape, dtype=tf.as_dtype(dtype).name)


def uniform(shape: Any, minval: Any = 0, maxval: Any = None, dtype: Any = "float32", **_: Any) -> Any:
    """Draw as ``tf.random.uniform`` does."""
    name = tf.as_dtype(dtype).name
    if "int" in name:
        return keras.random.randint(shape, minval, maxval, dtype=name)
    return minval + ((1 if maxval is None else maxval) - minval) * keras.random.uniform(shape, dtype=name)


def __getattr__(name: str) -> Any:
    return getattr(tf.random, name)

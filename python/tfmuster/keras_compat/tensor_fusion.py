"""Pack several tensors into one float32 vector, so that one collective sends all of them."""

from __future__ import annotations

from typing import Any


def pack(tensors: list[Any]) -> Any:
    """Concatenate the values of all tensors as one float32 vector."""
    import tensorflow as tf

    return tf.concat([tf.reshape(tf.cast(t, tf.float32), [-1]) for t in tensors], axis=0)


def unpack(packed: Any, like: list[Any]) -> list[Any]:
    """Split a packed vector into tensors with the shapes and types of ``like``."""
    import tensorflow as tf

    parts = tf.split(packed, [tf.size(t) for t in like])
    return [tf.cast(tf.reshape(part, tf.shape(t)), t.dtype) for part, t in zip(parts, like, strict=True)]

"""Send the first values of variables of all types from the chief to the other workers.

TensorFlow's broadcasts take six types. Variables of others, such as those of a layer with
``dtype="bfloat16"`` or of a quantized model, travel as the bytes that they are made of.
"""

from __future__ import annotations

import functools
from typing import Any

from .. import seams

_TYPES = ("bool", "float16", "float32", "float64", "int32", "int64")


def patch_broadcasts() -> None:
    """Replace ``broadcast_send`` and ``broadcast_recv`` of TensorFlow's module."""
    import tensorflow as tf

    stock_send, stock_receive = seams.BROADCAST_SEND.get(), seams.BROADCAST_RECEIVE.get()

    @functools.wraps(stock_send)
    def send(value: Any, shape: Any, type: Any, *args: Any, **kwargs: Any) -> Any:
        if not _as_bytes(type):
            return stock_send(value, shape, type, *args, **kwargs)
        numbers = tf.cast(tf.bitcast(value, tf.uint8), tf.int32)
        return stock_send(numbers, numbers.shape, tf.int32, *args, **kwargs)

    @functools.wraps(stock_receive)
    def receive(shape: Any, type: Any, *args: Any, **kwargs: Any) -> Any:
        if not _as_bytes(type):
            return stock_receive(shape, type, *args, **kwargs)
        # bitcast() adds an axis only for types of several bytes.
        sent = tf.TensorShape(shape) + ([type.size] if type.size > 1 else [])
        numbers = stock_receive(sent, tf.int32, *args, **kwargs)
        return tf.bitcast(tf.cast(numbers, tf.uint8), type)

    seams.BROADCAST_SEND.replace(send)
    seams.BROADCAST_RECEIVE.replace(receive)


def _as_bytes(type: Any) -> bool:
    number = type.is_integer or type.is_floating or type.is_complex
    return number and type.name not in _TYPES

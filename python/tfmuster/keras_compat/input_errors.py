"""Raise the error of a reader as it is, in place of the text that TensorFlow makes of it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ..errors import TfmusterError

_kept: list[TfmusterError] = []


def keep_error(error: TfmusterError) -> None:
    """Keep an error that a thread of TensorFlow's input pipeline is about to raise."""
    _kept.append(error)


@contextlib.contextmanager
def readers_errors() -> Iterator[None]:
    """Inside the block, replace an error of TensorFlow with the error of a reader that caused it."""
    import tensorflow as tf

    try:
        yield
    except tf.errors.OpError as error:
        if not _kept:
            raise
        kept = _kept[:]
        _kept.clear()
        raise kept[0] from error

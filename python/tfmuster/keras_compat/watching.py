"""Note when this worker is inside TensorFlow, where it may wait for the others."""

from __future__ import annotations

import functools
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

from ..system.activity import ACTIVITY


def watch_this_worker() -> None:
    """Let the other workers know from now on what this one does. Call it when its strategy is made."""
    from tensorflow.python.distribute.collective_all_reduce_strategy import CollectiveAllReduceExtended
    from tensorflow.python.distribute.cross_device_ops import CrossDeviceOps
    from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function

    if ACTIVITY.watched:
        return
    ACTIVITY.watched = True
    os.register_at_fork(after_in_child=_end_at_sigterm)
    stock = Function.__call__
    main = threading.main_thread().ident

    # Custom loops, too, run their steps and collective operations in functions.
    @functools.wraps(stock)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() != main:
            return stock(self, *args, **kwargs)
        ACTIVITY.enter()
        try:
            return stock(self, *args, **kwargs)
        finally:
            ACTIVITY.leave()

    Function.__call__ = call
    for method in ("reduce", "batch_reduce", "_gather"):
        setattr(CrossDeviceOps, method, _as_execution(getattr(CrossDeviceOps, method)))
    # The value of a new variable comes from the chief.
    extended = CollectiveAllReduceExtended
    extended._create_variable = _as_execution(extended._create_variable)


def _end_at_sigterm() -> None:
    """Let a forked process end when it is told to.

    TensorFlow catches SIGTERM as soon as it is in a cluster. A child inherits that without the thread that
    handles it, so `multiprocessing` would wait for it forever (Keras's `use_multiprocessing`).
    """
    # Python knows only of handlers that were set from Python.
    if signal.getsignal(signal.SIGTERM) in (None, signal.SIG_DFL):
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _as_execution(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Count the calls of a collective operation that are not part of a function."""
    import tensorflow as tf

    @functools.wraps(stock)
    def operation(*args: Any, **kwargs: Any) -> Any:
        if not tf.executing_eagerly():
            return stock(*args, **kwargs)
        with ACTIVITY.execution():
            return stock(*args, **kwargs)

    return operation

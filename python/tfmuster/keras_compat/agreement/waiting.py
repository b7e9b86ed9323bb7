"""Note when this worker is inside TensorFlow or JAX, where it may wait for the others."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...collectives import ABORTED, OTHER_OPERATION
from ...system.activity import ACTIVITY
from .. import seams
from ..process import PROCESS


def ended_before_whom(error: Exception) -> str | None:
    """Return the worker that is at another operation because the data of this one have ended, or None."""
    match = re.search(f"{ABORTED}: (.+?) {OTHER_OPERATION}", str(error))
    return match[1] if match and ACTIVITY.data_ended is not None else None


@contextlib.contextmanager
def _inside_tensorflow() -> Iterator[None]:
    """Note that this worker is inside TensorFlow; name the worker that ended an operation there."""
    import tensorflow as tf

    ACTIVITY.enter()
    try:
        yield
    except tf.errors.OpError as error:
        # The connection to another worker broke, or that worker aborted the operation. But if the data of
        # this worker have ended, it is the cause itself.
        aborted = any(words in str(error) for words in ("from remote target", ABORTED))
        if PROCESS.raise_cause is not None and aborted and not ended_before_whom(error):
            PROCESS.raise_cause()
        raise
    finally:
        ACTIVITY.leave()


def patch_waits() -> None:
    """Note from now on when this worker is inside TensorFlow. Call it when its strategy is made."""
    import tensorflow as tf

    if ACTIVITY.watched:
        return
    ACTIVITY.watched = True
    _end_at_sigterm()
    os.register_at_fork(after_in_child=_end_at_sigterm)
    stock = seams.FUNCTION_CALL.get()
    main = threading.main_thread().ident

    # Custom loops, too, run their steps and collective operations in functions.
    @seams.FUNCTION_CALL.wrap
    def call(self: Any, *args: object, **kwargs: object) -> Any:
        if threading.get_ident() != main:
            return stock(self, *args, **kwargs)
        if tf.executing_eagerly():
            ACTIVITY.happens("function")
        with _inside_tensorflow():
            return stock(self, *args, **kwargs)

    # The value of a new variable comes from the chief.
    for seam in (seams.REDUCE, seams.BATCH_REDUCE, seams.GATHER, seams.CREATE_VARIABLE):
        seam.replace(inside_collective()(seam.get()))


def _end_at_sigterm() -> None:
    """Let this process, or a forked one, end when it is told to.

    TensorFlow catches SIGTERM as soon as it is in a cluster, and continues. A child inherits that without
    the thread that handles it, so `multiprocessing` would wait for it forever (Keras's
    `use_multiprocessing`).
    """
    # Python knows only of handlers that were set from Python, and only its main thread sets any.
    if threading.current_thread() is threading.main_thread() and (
        signal.getsignal(signal.SIGTERM) in (None, signal.SIG_DFL)
    ):
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextlib.contextmanager
def inside_collective() -> Iterator[None]:
    """Note that this worker waits for the others in the block, unless the block only adds to a graph."""
    import tensorflow as tf

    if not tf.executing_eagerly():
        yield
        return
    with ACTIVITY.execution(), _inside_tensorflow():
        yield


def monitor_jax() -> None:
    """Tell the other workers from now on whether this one is inside JAX."""
    if not ACTIVITY.watched:
        ACTIVITY.watched = True
        ACTIVITY.waits_in("JAX", _is_inside_jax)


def _is_inside_jax() -> bool:
    """Return whether the main thread is in JAX or Keras, where it may wait for other processes.

    JAX's calls return before they are computed, so a step says nothing about who waits. The main thread
    waits where it reads a value, where Keras drops an array that is still computed, and in the next step.
    """
    modules = (sys.modules.get(name) for name in ("jax", "jaxlib", "keras"))
    folders = tuple(f"{Path(module.__file__).parent}/" for module in modules if module and module.__file__)
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    return frame is not None and frame.f_code.co_filename.startswith(folders)

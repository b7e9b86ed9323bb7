"""Protect the R session that embeds this Python from crashes and hangs.

**Threads.** R has one thread. TensorFlow calls Python functions in its own threads: those of
``tf.data.Dataset.from_generator``, of ``tf.py_function``, and of a generator passed to ``fit``. If the
function is written in R, reticulate 1.28 aborts the session and 1.46 hangs. This module raises an error
instead. It changes only reticulate's calls from Python to R, and only in other threads.

**Interrupts.** When R handles an interrupt, it jumps out of its current code, including reticulate's code
between Python and R. This breaks Python's frames below it, and the session crashes soon after. Before 1.37,
reticulate calls an R function to check for an interrupt while it is pending: in 1.28, one Ctrl-C in seventy
ends in a crash. For those versions, R functions that Python calls are not interrupted; Python is interrupted
right after them.
"""

from __future__ import annotations

import ctypes
import functools
import queue
import sys
import threading
from collections.abc import Callable
from typing import Any

from ..errors import DataError
from ..worker import reticulate

#: Longest wait for R's thread to produce a value of an R generator, in seconds. It never does so while it
#: runs TensorFlow.
_ANSWER_SECONDS = 5.0


def foreign_thread_error(what: str) -> DataError:
    """Make the error for an R function or generator that is called in another thread than R's."""
    thread = threading.current_thread()
    if type(thread).__name__ == "_MirroredReplicaThread":
        found = f"replica {thread.replica_id} of this process"  # type: ignore[attr-defined]
        fix = (
            "Use one device per process, for example strategy('mirrored', devices = 'GPU:0') or "
            "launch(control = launch_control(gpus_per_worker = 1)), and record gradients inside of "
            "strategy$run(), not around it."
        )
    else:
        found = f"thread {thread.name}"
        fix = (
            "R functions can be callbacks, layers, losses, metrics, and generators for fit(), which are "
            "called in R's own thread; the functions of a tf.data pipeline must not be written in R."
        )
    return DataError(
        f"{what} was called by a thread that is not R's, and R has only one thread.",
        found=found,
        fix=fix,
        reason="foreign-thread",
        path=None,
    )


def guard_r_functions() -> bool:
    """Guard calls of R functions; return whether this Python is embedded in R. Calling it again is safe."""
    if "rpycall" not in sys.modules:
        return False
    if reticulate.CALL_R_FUNCTION.fits and not reticulate.CALL_R_FUNCTION.replaced:
        call = reticulate.CALL_R_FUNCTION.get()
        if "rpytools.signals" in sys.modules:  # before 1.37
            call = _uninterrupted(call)
        call = _in_r_thread(call)
        reticulate.CALL_R_FUNCTION.replace(call)
        if reticulate.CALL_R_FUNCTION_AGAIN.fits:
            reticulate.CALL_R_FUNCTION_AGAIN.replace(call)
        if reticulate.R_GENERATOR_NEXT.fits and reticulate.CALL_ON_MAIN_THREAD.fits:
            generator = reticulate.R_GENERATOR.get()
            if "prefetch" not in generator.__init__.__code__.co_varnames:
                next_in_time = _next_in_time(generator.next)
                reticulate.R_GENERATOR.add("next", next_in_time)
                reticulate.R_GENERATOR.add("__next__", next_in_time)
    return True


def _is_r_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _in_r_thread(call_r_function: Callable[..., object]) -> Callable[..., object]:
    @functools.wraps(call_r_function)
    def call(*args: object, **kwargs: object) -> object:
        if not _is_r_thread():
            raise foreign_thread_error("An R function")
        return call_r_function(*args, **kwargs)

    # AutoGraph can't convert R code, and warns about every function that it fails to convert.
    call.autograph_info__ = {}  # type: ignore[attr-defined]
    return call


def _uninterrupted(call_r_function: Callable[..., object]) -> Callable[..., object]:
    """Suspend R's interrupts during a call; the outermost call raises KeyboardInterrupt afterwards."""
    try:
        r = ctypes.CDLL(None)
        suspended = ctypes.c_int.in_dll(r, "R_interrupts_suspended")
        pending = ctypes.c_int.in_dll(r, "R_interrupts_pending")
    except (OSError, TypeError, ValueError):
        return call_r_function  # On Windows, R has other names for these variables.

    @functools.wraps(call_r_function)
    def call(*args: object, **kwargs: object) -> object:
        before = suspended.value
        try:
            suspended.value = 1
            result = call_r_function(*args, **kwargs)
        finally:
            suspended.value = before
        if pending.value and not before:
            pending.value = 0
            raise KeyboardInterrupt
        return result

    return call


def _next_in_time(stock_next: Callable[[Any], object]) -> Callable[[Any], object]:
    """Request the next value from R's thread, as reticulate does, but with a time limit."""

    @functools.wraps(stock_next)
    def next_(self: Any) -> object:
        if _is_r_thread():
            return stock_next(self)
        answer: queue.Queue[object] = queue.Queue()
        reticulate.CALL_ON_MAIN_THREAD.get()(lambda: answer.put(self.r_function()), None)
        try:
            value = answer.get(timeout=_ANSWER_SECONDS)
        except queue.Empty:
            raise foreign_thread_error("An R generator") from None
        if value == self.completed:
            raise StopIteration
        return value

    return next_

"""What the R that this Python is embedded in must be kept from.

**Threads.** R has one. TensorFlow calls Python functions in threads of its own: those of
``tf.data.Dataset.from_generator``, of ``tf.py_function``, of a generator that is given to ``fit``. If the
function is R's, reticulate 1.28 aborts the session and 1.46 hangs. It is an error here. Only reticulate's own
way from Python to R is touched, and only for other threads.

**Interrupts.** R leaves what it is doing when it takes one, also the part of reticulate between Python and R,
and Python's frames below that are broken then: the session crashes a moment later. Before 1.37, reticulate
even asks a function of R whether there is an interrupt, with the interrupt pending: in 1.28 one Ctrl-C in
seventy ends in a crash. There, no function of R that Python calls is interrupted; Python is, right after it.

**Load hooks.** When Keras is imported, R's keras3 makes a tensor, and TensorFlow can't join a cluster any
more. Importing TensorFlow imports Keras. So these hooks have to wait until a strategy is made.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import queue
import sys
import threading
from collections.abc import Iterator
from typing import Any

from ..errors import DataError

#: How long R's thread may take to answer a generator of its own, seconds. While it is in TensorFlow, it never
#: does.
_ANSWER_SECONDS = 5.0


def foreign_thread_error(what: str) -> DataError:
    """The error of an R function or generator in a thread that is not R's."""
    return DataError(
        f"{what} was called by a thread that is not R's, and R has one thread only.",
        found=f"thread {threading.current_thread().name}",
        fix="Give fit() arrays or a tf.data dataset that is made of arrays or files; R functions can be "
        "callbacks, which Keras calls in R's own thread.",
        reason="foreign-thread",
        path=None,
    )


def guard_r_functions() -> bool:
    """Guard the functions of the R that this Python is embedded in; whether there is one. Once is enough."""
    if "rpycall" not in sys.modules:
        return False
    import rpycall
    import rpytools.call
    import rpytools.generator

    if not hasattr(rpycall.call_r_function, "guarded"):
        if "rpytools.signals" in sys.modules:  # before 1.37
            rpycall.call_r_function = _uninterrupted(rpycall.call_r_function)
        rpycall.call_r_function = _in_r_thread(rpycall.call_r_function)
        # Newer reticulates have a name of their own for it.
        if hasattr(rpytools.call, "call_r_function"):
            rpytools.call.call_r_function = rpycall.call_r_function
        generator = rpytools.generator.RGenerator
        if "prefetch" not in generator.__init__.__code__.co_varnames:
            generator.next = generator.__next__ = _next_in_time(generator.next)
    return True


def _is_r_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _in_r_thread(call_r_function: Any) -> Any:
    @functools.wraps(call_r_function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not _is_r_thread():
            raise foreign_thread_error("An R function")
        return call_r_function(*args, **kwargs)

    call.guarded = True  # type: ignore[attr-defined]
    return call


def _uninterrupted(call_r_function: Any) -> Any:
    """While it lasts, R takes no interrupt; the outermost call raises KeyboardInterrupt afterwards."""
    try:
        r = ctypes.CDLL(None)
        suspended = ctypes.c_int.in_dll(r, "R_interrupts_suspended")
        pending = ctypes.c_int.in_dll(r, "R_interrupts_pending")
    except (OSError, TypeError, ValueError):
        return call_r_function  # on Windows R has other names for them

    @functools.wraps(call_r_function)
    def call(*args: Any, **kwargs: Any) -> Any:
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


def _next_in_time(stock_next: Any) -> Any:
    """R's thread is asked for the next value, as reticulate does, but not waited for without end."""

    @functools.wraps(stock_next)
    def next_(self: Any) -> Any:
        if _is_r_thread():
            return stock_next(self)
        import rpycall

        answer: queue.Queue[Any] = queue.Queue()
        rpycall.call_python_function_on_main_thread(lambda: answer.put(self.r_function()), None)
        try:
            value = answer.get(timeout=_ANSWER_SECONDS)
        except queue.Empty:
            raise foreign_thread_error("An R generator") from None
        if value == self.completed:
            raise StopIteration
        return value

    return next_


@contextlib.contextmanager
def postponed_load_hooks() -> Iterator[None]:
    """While the block lasts, R does not hear which modules are imported; then it hears it at once."""
    loader: Any = sys.modules.get("rpytools.loader")
    if loader is None or not hasattr(loader, "_recursion_depth"):
        yield
        return
    loader._recursion_depth += 1
    try:
        yield
    finally:
        loader._recursion_depth -= 1
        loader._maybe_run_hooks()

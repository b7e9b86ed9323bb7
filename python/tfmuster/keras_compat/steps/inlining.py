"""Make the ``tf.function`` s that a step of ``fit`` calls a part of the step's own graph.

A traced function keeps what it has found in the graph that called it first, such as the worker's share of
the rows, and can't be called from another graph then. From outside, it is one operation, which hides the
terms of a loss (:mod:`.loss_parts`).

With ``jit_compile=True``, Keras compiles a step as a whole. A step on several workers has collective
operations, which XLA does not have for CPUs. So its operations are marked for XLA one by one, as
``tf.xla.experimental.jit_scope`` does: TensorFlow compiles clusters of them, and leaves out collective
operations, on CPUs and on GPUs (``FindCompilationCandidates`` in its ``mark_for_compilation_pass.cc``).
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

from .. import seams
from ..rows.step_rows import share_of_rows


def inlined(function: Any) -> Callable[..., Any]:
    """Return a function that traces the body of a ``tf.function`` where it is called."""
    import tensorflow as tf

    if tf.executing_eagerly() or not seams.AUTOGRAPH.of(function):
        return function.python_function  # type: ignore[no-any-return]
    # Keras's own steps are not converted, and so the context may say that nothing is.
    context = seams.AUTOGRAPH_CONTEXT.get()(seams.AUTOGRAPH_STATUS.get().ENABLED)
    return seams.AUTOGRAPH_CONVERT.get()(function.python_function, context)  # type: ignore[no-any-return]


def patch_functions() -> None:
    """Patch the class of the objects that ``tf.function`` returns; outside of a step nothing changes."""
    stock_call = seams.FUNCTION_CALL.get()

    @functools.wraps(stock_call)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        # What XLA compiles has no collective operation in it, and stays one operation.
        if share_of_rows() is None or seams.JIT_COMPILE.of(self):
            return stock_call(self, *args, **kwargs)
        return inlined(self)(*args, **kwargs)

    seams.FUNCTION_CALL.replace(call)


def compiled(model: Any) -> Any:
    """Return the context in which to trace a step of a model: XLA compiles it, if the model asks for that."""
    import tensorflow as tf

    if not model.jit_compile or tf.executing_eagerly():
        return contextlib.nullcontext()
    return tf.xla.experimental.jit_scope()

"""Compile the steps of a model with ``jit_compile=True``, but for what the workers do together.

Keras compiles a step as a whole. A step on several workers has collective operations, which XLA does not have
for CPUs. So its operations are marked for XLA one by one, as ``tf.xla.experimental.jit_scope`` does:
TensorFlow compiles clusters of them, and leaves out collective operations, on CPUs and on GPUs
(``FindCompilationCandidates`` in its ``mark_for_compilation_pass.cc``).
"""

from __future__ import annotations

import contextlib
from typing import Any


def compiled(model: Any) -> Any:
    """Return the context in which to trace a step of a model: XLA compiles it, if the model asks for that."""
    import tensorflow as tf

    if not model.jit_compile or tf.executing_eagerly():
        return contextlib.nullcontext()
    return tf.xla.experimental.jit_scope()

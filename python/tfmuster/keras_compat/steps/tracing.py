"""Trace the steps of a model: to build it without a batch, and as a part of the graph of an execution.

A ``tf.function`` that a step calls is traced as a part of the step's own graph. A traced function keeps what
it has found in the graph that called it first, such as the worker's share of the rows, and can't be called
from another graph then. From outside, it is one operation, which hides the terms of a loss
(:mod:`.loss_parts`).

With ``jit_compile=True``, Keras compiles a step as a whole. A step on several workers has collective
operations, which XLA does not have for CPUs. So its operations are marked for XLA one by one, as
``tf.xla.experimental.jit_scope`` does: TensorFlow compiles clusters of them, and leaves out collective
operations, on CPUs and on GPUs (``FindCompilationCandidates`` in its ``mark_for_compilation_pass.cc``).
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from .. import seams
from ..agreement.documents import Call
from ..losses.loss_parts import only_building
from ..rows import LocalBatch, Tensors, WorkerBatch
from ..step_rows import is_one_process, share_of_rows

if TYPE_CHECKING:
    import keras
    import tensorflow as tf


def build(model: keras.Model, epochs: object) -> None:
    """Build a model, its metrics, and its optimizer from the type of the data of an epoch iterator.

    Keras itself would create a second iterator and read a first batch from it.
    """
    import keras
    import tensorflow as tf

    spec = seams.EPOCHS_DATASET.of(epochs).element_spec
    spec = tf.nest.map_structure(_as_spec, spec.data if isinstance(spec, (LocalBatch, WorkerBatch)) else spec)
    with model.distribute_strategy.scope():
        without_call = type(model).call in (keras.Model.call, keras.layers.Layer.call)
        # Keras's own way knows dense tensors only.
        dense = all(isinstance(t, tf.TensorSpec) for t in tf.nest.flatten(spec) if t is not None)
        if without_call or not (dense or isinstance(model, (keras.Sequential, seams.FUNCTIONAL.get()))):
            _build_by_step(model, spec)
            return
        try:
            seams.SYMBOLIC_BUILD.of(model)(data_batch=spec)
        except Exception:
            if type(model).train_step is keras.Model.train_step:
                raise
            # Its step may call it with something else than the batch.
            _build_by_step(model, spec)


def _build_by_step(model: keras.Model, spec: Tensors) -> None:
    """Build a model without ``call()``, such as a GAN, or of sparse data, by tracing its step.

    Batches to train on may have another structure than those to evaluate with.
    """
    import keras
    import tensorflow as tf

    flat, call = tf.nest.flatten(spec), Call.of(model)
    own_step = model.test_step if call is not None and call.name == "evaluate" else model.train_step

    def step(*tensors: tf.Tensor) -> None:
        left = iter(tensors)
        batch = tf.nest.pack_sequence_as(spec, [t and next(left) for t in flat])
        model.distribute_strategy.run(own_step, args=(batch,))

    with only_building(), _without_updates() as updates, keras.StatelessScope(), seams.SYMBOLIC_SCOPE.get()():
        tf.function(step, autograph=False).get_concrete_function(*(t for t in flat if t is not None))
    # Now the weights have values, and those of an optimizer can be made like them.
    for optimizer, variables in updates:
        if not optimizer.built:
            optimizer.build(variables)


@contextlib.contextmanager
def _without_updates() -> Iterator[list[tuple[keras.optimizers.Optimizer, list[keras.Variable]]]]:
    """Inside the block, optimizers update nothing; gives a list of each one and its variables."""
    import keras

    updates: list[tuple[keras.optimizers.Optimizer, list[keras.Variable]]] = []

    def apply(
        self: keras.optimizers.Optimizer,
        gradients: object,
        trainable_variables: list[keras.Variable] | None = None,
    ) -> None:
        if trainable_variables is not None:
            updates.append((self, list(trainable_variables)))

    owners = [keras.optimizers.Optimizer, keras.optimizers.LossScaleOptimizer]
    stocks = [owner.apply for owner in owners]
    for owner in owners:
        owner.apply = apply
    try:
        yield updates
    finally:
        for owner, stock in zip(owners, stocks, strict=True):
            owner.apply = stock


def _as_spec(spec: object) -> tf.TypeSpec | None:
    """Return the spec that one replica sees: a tensor's spec, or None for an absent value."""
    import tensorflow as tf

    values = seams.VALUE_SPECS.of(spec, None)
    if values is not None:
        return values[0]
    return spec if isinstance(spec, tf.TypeSpec) and hasattr(spec, "shape") else None


def inlined(function: tf.types.experimental.PolymorphicFunction) -> Callable[..., Any]:
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
    def call(self: tf.types.experimental.PolymorphicFunction, *args: object, **kwargs: object) -> Any:
        # What XLA compiles has no collective operation in it, and stays one operation.
        if (share_of_rows() is None and not is_one_process()) or seams.JIT_COMPILE.of(self):
            return stock_call(self, *args, **kwargs)
        return inlined(self)(*args, **kwargs)

    seams.FUNCTION_CALL.replace(call)


def compiled(model: keras.Model) -> contextlib.AbstractContextManager[None]:
    """Return the context in which to trace a step of a model: XLA compiles it, if the model asks for that."""
    import tensorflow as tf

    if not model.jit_compile or tf.executing_eagerly():
        return contextlib.nullcontext()
    return tf.xla.experimental.jit_scope()  # type: ignore[no-any-return]

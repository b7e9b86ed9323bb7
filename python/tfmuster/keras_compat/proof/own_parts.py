"""Find what a model has that is not known to be right on several workers: code of the program, mostly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from ...system.user_code import module_of
from .. import seams
from ..agreement.values import FUNCTIONS, attributes_of, is_plain
from ..losses.batch_statistics import synchronized

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

#: Keras's layers that run code of others.
_OF_OTHERS: Final = ("Lambda", "TFSMLayer", "TorchModuleWrapper", "JaxLayer", "FlaxLayer")
#: Keras's layers that mix the rows of a batch; docs/concepts/fitting.md says so.
_MIX_ROWS: Final = ("MixUp", "CutMix")
#: Libraries whose functions are known.
_KNOWN: Final = ("keras.", "tensorflow.", "tfmuster.")


def own_parts(model: keras.Model) -> list[str]:
    """Return the names of what a step has to be proven for; [] if all of the model is known."""
    return list(dict.fromkeys(_own_parts(model)))


def is_own(thing: object) -> bool:
    """Return whether a function or an object, or one that it has, is not of a known library."""
    return any(True for _ in _own(thing))


def known_differences(model: keras.Model) -> list[str]:
    """Return which of a model's layers differ by design, or by the wish of the program, from one process."""
    layers, strategy = seams.FLATTEN_LAYERS.of(model)(), model.distribute_strategy
    mixing = {type(layer).__name__ for layer in layers if type(layer).__name__ in _MIX_ROWS}
    local = any(_normalizes_alone(layer, strategy) for layer in layers)
    return sorted(mixing) + ["BatchNormalization with the statistics of each worker"] * local


def _normalizes_alone(layer: keras.layers.Layer, strategy: tf.distribute.Strategy) -> bool:
    import keras

    return isinstance(layer, keras.layers.BatchNormalization) and not synchronized(layer, strategy)


def _own_parts(model: keras.Model) -> Iterator[str]:
    for layer in seams.FLATTEN_LAYERS.of(model)():
        if not _is_known(layer) or type(layer).__name__ in (*_OF_OTHERS, *_MIX_ROWS):
            yield type(layer).__name__
            continue
        yield from _own_attributes(layer)
        # Functions of keras.ops in a functional model may look at several rows.
        for operation in getattr(layer, "operations", ()):
            if not hasattr(operation, "weights"):
                yield type(operation).__name__
    compiled = seams.COMPILE_CONFIG.of(model, None)
    for value in _leaves(getattr(compiled, "config", None)):
        if not is_plain(value):
            yield from _own(value)


def _leaves(value: object) -> Iterator[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for part in value:
            yield from _leaves(part)
    elif value is not None:
        yield value


def _own(value: Any) -> Iterator[str]:
    """Yield the name of a function or object, if it is not one of a known library."""
    if isinstance(value, FUNCTIONS):
        if not str(getattr(value, "__module__", "")).startswith(_KNOWN):
            yield str(getattr(value, "__name__", type(value).__name__))
    elif isinstance(value, type):
        if not value.__module__.startswith(_KNOWN):
            yield value.__name__
    elif not _is_known(value):
        yield type(value).__name__
    else:
        yield from _own_attributes(value)


def _own_attributes(owner: object) -> Iterator[str]:
    """Yield the names of the functions and objects of the program that an object of Keras has."""
    import keras

    objects = (keras.regularizers.Regularizer, keras.constraints.Constraint)
    for value in attributes_of(owner).values():
        if isinstance(value, (*FUNCTIONS, *objects)):
            yield from _own(value)


def _is_known(value: object) -> bool:
    return module_of(value).startswith(_KNOWN)

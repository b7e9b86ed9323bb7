"""Recognize the steps of a ``tf.data`` pipeline by TensorFlow's private classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import seams
from .shuffling import can_share


class StaysError(Exception):
    """The pipeline has a step for which all rows are needed; the text says which."""


PLAIN: dict[str, Callable[[Any, Any], Any]] = {
    "Repeat": lambda dataset, like: dataset.repeat(seams.REPEAT_COUNT.of(like)),
    "Take": lambda dataset, like: dataset.take(seams.REPEAT_COUNT.of(like)),
    "Skip": lambda dataset, like: dataset.skip(seams.REPEAT_COUNT.of(like)),
    "Shard": lambda dataset, like: dataset.shard(seams.NUM_SHARDS.of(like), seams.SHARD_INDEX.of(like)),
}


def kind_of(dataset: Any) -> str:
    """Return the kind of step, such as ``Batch``, by TensorFlow's private class."""
    kind = type(dataset)
    if not kind.__module__.startswith(f"{seams.DATA_PACKAGE.get().__name__}."):
        return ""
    return kind.__name__.removeprefix("_").removesuffix("V2").removesuffix("Dataset")


def name_of(dataset: Any) -> str:
    """Return what to call a step in a message."""
    kind = type(dataset).__name__.removeprefix("_")
    return f"a {kind}" if kind.endswith(("Dataset", "DatasetV2")) else f"a {kind} data set"


def is_tuple(dataset: Any) -> bool:
    """Return whether `map` calls functions of this data set with several arguments."""
    return type(dataset.element_spec) is tuple


def dense(dataset: Any) -> bool:
    """Return whether all parts of an element are ordinary tensors."""
    import tensorflow as tf

    return all(isinstance(spec, tf.TensorSpec) for spec in seams.NEST.get().flatten(dataset.element_spec))


def check_batchable(addresses: Any, why: str) -> None:
    """Refuse addresses that can't be put into one tensor."""
    import tensorflow as tf

    for spec in seams.NEST.get().flatten(addresses.element_spec):
        if not isinstance(spec, tf.TensorSpec) or not spec.shape.is_fully_defined():
            raise StaysError(f"rows of {why} may differ in shape, so every worker computes all rows")


def check_shuffle(dataset: Any) -> None:
    """Refuse a shuffle whose seed generator is not known."""
    if not can_share(dataset):
        raise StaysError("the data set was shuffled before Keras was imported")


def check_cache(dataset: Any, reshuffles: bool) -> None:
    """Refuse a cache that can't hold the parts of one worker."""
    if reshuffles:
        raise StaysError("a cache keeps the order of a shuffle, so every worker computes all rows")
    if seams.CACHE_FILE.of(dataset).numpy():
        raise StaysError("batches are cached in a file, so every worker computes all rows")


def call_of(dataset: Any) -> Callable[[Any], Any]:
    """Return the function of a `map`, as it was traced."""
    structure = seams.STRUCTURE.get()
    wrapped, spec = seams.MAP_FUNCTION.of(dataset), seams.INPUTS.of(dataset)()[0].element_spec

    def apply(element: Any) -> Any:
        flat = wrapped.function(*structure.to_tensor_list(spec, element))
        return structure.from_compatible_tensor_list(wrapped.output_structure, list(flat))

    return apply

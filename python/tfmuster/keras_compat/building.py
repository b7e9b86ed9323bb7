"""Build a model, its metrics, and its optimizer from the type of its data, without reading a batch."""

from __future__ import annotations

from typing import Any

from .own_batches import OwnBatch
from .sharding import LocalBatch


def build(model: Any, epochs: Any) -> None:
    """Run Keras's symbolic build with the data's type spec.

    Keras itself would create a second iterator and read a first batch from it.
    """
    import tensorflow as tf

    spec = epochs._distributed_dataset.element_spec
    spec = tf.nest.map_structure(_as_spec, spec.data if isinstance(spec, (LocalBatch, OwnBatch)) else spec)
    with model.distribute_strategy.scope():
        model._symbolic_build(data_batch=spec)


def _as_spec(spec: Any) -> Any:
    """Return the spec that one replica sees: a tensor's spec, or None for an absent value."""
    import tensorflow as tf

    values = getattr(spec, "_value_specs", None)
    if values is not None:
        return values[0]
    return spec if isinstance(spec, tf.TypeSpec) and hasattr(spec, "shape") else None

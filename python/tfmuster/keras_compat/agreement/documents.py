"""Describe a call of ``fit``, ``evaluate``, or ``predict``, so that the workers can compare theirs."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any, Final

from .. import seams
from ..jax.data import is_divided_by_rows
from ..process import keras_backend
from ..rows import OfLength
from .samples import pipeline_of, sample_of

if TYPE_CHECKING:
    from .calls import Call

#: Name of the entry with numbers that tell the rows of two calls apart.
SAMPLE: Final = "rows"

#: How many weights are compared one by one if their digests differ.
_MOST_WEIGHTS: Final = 300


def document_of(call: Call, epochs: Any) -> dict[str, Any]:
    """Return what the workers compare when a call begins, by names that errors use."""
    model, arguments = call.model, call.arguments
    document: dict[str, Any] = {}
    if epochs is not None:
        document |= _data(epochs)
    if call.name == "fit":
        document["epochs"] = arguments.get("epochs", 1)
        document["initial epoch"] = int(seams.INITIAL_EPOCH.of(model) or arguments.get("initial_epoch", 0))
        document["validation"] = bool(
            arguments.get("validation_data") is not None or arguments.get("validation_split")
        )
        document["validation frequency"] = str(arguments.get("validation_freq", 1))
        document["optimizer"] = _optimizer(model.optimizer)
    if call.name != "predict":
        document["metrics"] = [plain_name(metric.name) for metric in model.metrics]
    document["steps per execution"] = model.steps_per_execution
    document["weights"] = hashlib.sha256(str(weights_of(model)).encode()).hexdigest()
    return {name: _json(value) for name, value in document.items()}


def _data(epochs: Any) -> dict[str, Any]:
    import tensorflow as tf

    adapter = epochs.data_adapter
    dataset = seams.ADAPTED_DATASET.of(adapter, None)
    local = seams.EPOCHS_DATASET.of(epochs, None)
    divided = isinstance(local, tf.data.Dataset) or is_divided_by_rows(adapter)
    steps = epochs.steps_per_epoch or adapter.num_batches
    if not divided or isinstance(adapter, OfLength):
        # With JAX, the workers can't go on without one that has no more batches.
        own = {"steps": steps, "batch size": adapter.batch_size} if keras_backend() == "jax" else {}
        return {"whose rows": "each worker's own", **own}
    document = {
        "whose rows": "all workers'",
        "steps": steps,
        "number of rows": seams.ADAPTED_ROWS.of(adapter, None),
        "batch size": adapter.batch_size,
        "data set": pipeline_of(dataset),
        SAMPLE: sample_of(epochs),
    }
    spec = dataset.element_spec if isinstance(dataset, tf.data.Dataset) else None
    arrays = tf.nest.flatten(spec if spec is not None else seams.ADAPTED_ARRAYS.of(adapter, None))
    document["elements"] = [
        f"{list(each.shape)[1:]} {getattr(each.dtype, 'name', each.dtype)}"
        for each in arrays
        if hasattr(each, "shape") and hasattr(each, "dtype") and each.shape.__len__() > 0
    ]
    return document


def weights_of(model: Any) -> dict[str, str]:
    """Return the shape and type of each weight, with the name that it would have in a fresh process."""
    weights = model.weights if model.built else []
    return {
        f"weight {number}": f"{plain_name(weight.path)} {tuple(weight.shape)} {weight.dtype}"
        for number, weight in enumerate(weights[:_MOST_WEIGHTS])
    } | {"number of weights": str(len(weights))}


def _optimizer(optimizer: Any) -> str:
    """Return an optimizer's class and its settings that are plain values."""
    if optimizer is None or not hasattr(optimizer, "get_config"):
        return type(optimizer).__name__
    settings = {
        key: round(value, 9) if isinstance(value, float) else value
        for key, value in optimizer.get_config().items()
        if isinstance(value, (int, float, str)) and key != "name"
    }
    return f"{type(optimizer).__name__} {settings}"


def plain_name(name: str) -> str:
    """Remove the numbers that Keras adds to names: they count the layers that a process has made."""
    return re.sub(r"_\d+(?=/|$)", "", str(name))


def _json(value: Any) -> Any:
    if isinstance(value, (str, bool)) or value is None:
        return value
    if isinstance(value, list):
        return [str(each) for each in value]
    return float(value) if isinstance(value, float) else int(value)

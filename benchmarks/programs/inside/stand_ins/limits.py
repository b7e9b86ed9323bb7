"""Short trainings: two epochs of a few batches."""

from __future__ import annotations

import inspect
from typing import Any

import keras

_EPOCHS = 2
_BATCHES = 5
#: Rows that a program may predict; what it does with the predictions needs all of them.
_PREDICTED = 3000


def shorten(name: str, given: inspect.BoundArguments) -> inspect.BoundArguments:
    """Return the arguments of a call of Keras with fewer epochs, batches and rows."""
    values = given.arguments
    if name.endswith("_on_batch"):
        return given
    if name == "fit":
        first = values.get("initial_epoch", 0)
        values["epochs"] = min(values.get("epochs", 1), first + _EPOCHS)
    batch = values.get("batch_size") or 32
    for key in ("steps_per_epoch", "validation_steps", "steps"):
        if values.get(key):
            values[key] = max(1, min(int(values[key]), _BATCHES))
    repeats = bool(values.get("steps_per_epoch") or values.get("steps"))
    for key in ("x", "validation_data"):
        values[key] = _fewer(values.get(key), name, batch, repeats)
    for key in ("y", "sample_weight"):
        values[key] = _fewer(values.get(key), name, batch, False)
    return given


def _fewer(data: Any, name: str, batch: int, repeats: bool) -> Any:
    import tensorflow as tf

    if data is None or repeats:
        return data
    if isinstance(data, tf.data.Dataset):
        few = _BATCHES if name != "predict" else 4 * _BATCHES
        return data.take(few) if data.cardinality() < 0 or data.cardinality() > few else data
    if isinstance(data, keras.utils.PyDataset) or hasattr(data, "__next__"):
        return data
    if isinstance(data, dict):
        return {key: _fewer(value, name, batch, False) for key, value in data.items()}
    if isinstance(data, tuple) or (isinstance(data, list) and data and hasattr(data[0], "shape")):
        return type(data)(_fewer(value, name, batch, False) for value in data)
    return _fewer_rows(data, name, batch)


def _fewer_rows(data: Any, name: str, batch: int) -> Any:
    shape = getattr(data, "shape", None)
    try:
        rows = int(shape[0]) if shape is not None and len(shape) else len(data)
    except TypeError:
        return data
    # The last batch is as much smaller than the others as it was.
    most = _BATCHES * batch + rows % batch if name != "predict" else _PREDICTED
    if rows <= most:
        return data
    return data.iloc[:most] if hasattr(data, "iloc") else data[:most]

"""Describe the data of a call, so that workers can compare them, without reading from an iterator.

A second iterator of a shuffled or stateful data set would change what the training reads. So arrays are
sampled directly, and a ``tf.data`` pipeline is described by its steps and by the tensors at its source.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import seams

#: How many arrays are sampled.
_MOST_ARRAYS = 4

#: Bytes of a row that are looked at.
_MOST_VALUES = 4096

#: Settings of the steps of a pipeline that decide which rows are in which batch.
_SETTINGS = ("batch_size", "count", "buffer_size", "seed", "seed2", "num_shards", "index")

#: Relative difference up to which two samples are equal. Machines may compute the same rows differently.
_CLOSE = 1e-3


def sample_of(epochs: Any) -> str:
    """Return numbers that tell the rows of two calls apart; "" if the data can't be sampled.

    Parameters
    ----------
    epochs : keras EpochIterator
        The epoch iterator of a call.
    """
    import tensorflow as tf

    adapter = epochs.data_adapter
    inputs = seams.ADAPTED_ARRAYS.of(adapter, None)
    if inputs is None and seams.FIRST_BATCHES.of(adapter, None):
        # Keras has read the first batches of a generator, and gives them back.
        inputs = seams.FIRST_BATCHES.of(adapter)[:1]
    if inputs is not None:
        arrays = tf.nest.flatten(inputs)
    else:
        arrays = [tensor for tensor in _sources(seams.ADAPTED_DATASET.of(adapter, None))]
    numbers: list[float] = []
    for array in [array for array in arrays if array is not None][:_MOST_ARRAYS]:
        try:
            numbers += _numbers(array)
        except Exception:
            # Data may be of any kind, and a sample that fails must not end a training.
            numbers.append(0.0)
    return " ".join(f"{number:.6g}" for number in numbers)


def close(first: str, second: str) -> bool:
    """Return whether two samples may be of the same rows."""
    ours, theirs = first.split(), second.split()
    return len(ours) == len(theirs) and bool(
        np.allclose(np.array(ours, float), np.array(theirs, float), rtol=_CLOSE, atol=1e-6, equal_nan=True)
    )


def pipeline_of(dataset: Any) -> str:
    """Return the steps of a ``tf.data`` pipeline, with what decides which rows it yields; "" for others."""
    names = []
    for each in _chain(dataset):
        name = type(each).__name__.strip("_").removesuffix("Dataset").removesuffix("V2")
        given = [getattr(each, f"_{key}", None) for key in _SETTINGS]
        shown = [str(int(value)) for value in given if value is not None and _is_number(value)]
        if name not in ("Options", "Prefetch", "Model", "", "DatasetV1Adapter"):
            names.append(name + (f"({', '.join(shown)})" if shown else ""))
    return " > ".join(reversed(names))


def _is_number(value: Any) -> bool:
    try:
        return np.ndim(value) == 0 and isinstance(int(value), int)
    except (TypeError, ValueError, AttributeError, NotImplementedError):
        return False


def _chain(dataset: Any) -> Iterator[Any]:
    """Yield a data set and all data sets that it reads, from the last step to the sources."""
    waiting = [dataset] if seams.INPUTS.of(dataset, None) else []
    seen = 0
    while waiting and seen < 200:
        each = waiting.pop(0)
        seen += 1
        yield each
        try:
            waiting += seams.INPUTS.of(each)()
        except (NotImplementedError, AttributeError):
            continue


def _sources(dataset: Any) -> Iterator[Any]:
    """Yield the tensors that a pipeline slices."""
    for each in _chain(dataset):
        if type(each).__name__.strip("_") == "TensorSliceDataset":
            yield from seams.TENSORS.of(each)


def _numbers(array: Any) -> list[float]:
    """Return one number for each of some rows of an array."""
    rows = int(array.shape[0])
    places = sorted({0, rows // 3, 2 * rows // 3, rows - 1}) if rows else []
    return [_number(array.iloc[place] if hasattr(array, "iloc") else array[place]) for place in places]


def _number(row: Any) -> float:
    values = np.asarray(row).reshape(-1)[:_MOST_VALUES]
    if values.dtype.kind in "OSU":
        # File names are sampled without their folders, which may differ between machines.
        texts = [
            value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value) for value in values
        ]
        return zlib.crc32("\n".join(os.path.basename(text) for text in texts).encode()) / 2**32
    # Weights tell the order of the values, too.
    values = values.astype(np.float64)
    return float(np.dot(values, np.linspace(1.0, 2.0, len(values))) / max(1, len(values)))

"""What the workers compare of their data before the first step: the steps of a pipeline, and samples of rows.

To read shuffled or stateful data a second time would change what the training reads. So arrays are sampled,
and of a ``tf.data`` pipeline the tensors at its source, and the first element after those of its steps that
may run twice.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ...system.user_code import module_of
from .. import seams
from ..data.pipelines import kind_of, operations_of

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd
    import tensorflow as tf

#: Names of the entries with numbers that tell the rows of two calls apart, with a digest of all values of
#: arrays, and with files in their order.
SAMPLE: Final = "rows"
VALUES: Final = "values of the arrays"
FILES: Final = "files"
#: Settings of the steps of a pipeline that decide which rows are in which batch.
_SETTINGS: Final = ("batch_size", "count", "buffer_size", "seed", "seed2", "num_shards", "index")
#: How many arrays are sampled, and how many bytes of a row.
_MOST_ARRAYS: Final = 4
_MOST_VALUES: Final = 4096
#: Bytes of an array of which all rows are looked at. Of a larger one, every second or third one is.
_MOST_BYTES: Final = 64 << 20
#: Parts of arrays that are compared as sums if their digests differ.
_BLOCKS: Final = 400
#: How much of their size sums of numbers may differ by.
_ROUNDING: Final = 1e-5
#: How many names of files are looked at.
_MOST_FILES: Final = 10_000
#: Relative difference up to which two samples are equal. Machines may compute the same rows differently.
_CLOSE: Final = 1e-3
#: Steps that read, or compute by functions; steps that make batches; and other ones that give the same
#: elements whenever they run.
_READING: Final = {
    *("FixedLengthRecord", "TFRecord", "TextLine", "FlatMap", "Interleave", "ParallelInterleave"),
    *("Map", "ParallelMap"),
}
_BATCHING: Final = {"Batch", "PaddedBatch", "ParallelBatch", "Rebatch"}
_OTHER: Final = {
    *("Concatenate", "Options", "Prefetch", "Range", "Repeat", "Scan", "Shard", "Skip", "Take", "Tensor"),
    *("TensorSlice", "Unbatch", "Zip"),
}
_PURE: Final = _READING | _BATCHING | _OTHER
#: The same in the graphs of functions: operations that TensorFlow calls stateful.
_PURE_OPERATION: Final = re.compile(
    rf"({'|'.join(_PURE)}|Model|Parallel\w+)Dataset(V\d)?|Assert|Lookup\w+|Hash\w+|ReadFile|MatchingFiles|"
    r"VarHandleOp|ReadVariableOp|ResourceGather|(Stateful)?PartitionedCall|If|While|Case"
)
#: Where a data set keeps its sample, and an adapter the digest of its arrays.
_SAMPLE_OF: Final = "_tfmuster_sample"
_VALUES_OF: Final = "_tfmuster_values"


def pipeline_of(dataset: object) -> str:
    """Return the steps of a ``tf.data`` pipeline, with what decides which rows it yields; "" for others."""
    names = []
    for step in chain(dataset):
        name = type(step).__name__.strip("_").removesuffix("Dataset").removesuffix("V2")
        settings = [getattr(step, f"_{key}", None) for key in _SETTINGS]
        numbers = [str(int(value)) for value in settings if value is not None and _is_number(value)]
        if name not in ("Options", "Prefetch", "Model", "", "DatasetV1Adapter"):
            names.append(name + (f"({', '.join(numbers)})" if numbers else ""))
    return " > ".join(reversed(names))


def _is_number(value: Any) -> bool:
    try:
        return np.ndim(value) == 0 and isinstance(int(value), int)
    except (TypeError, ValueError, AttributeError, NotImplementedError):
        return False


def chain(dataset: object) -> Iterator[Any]:
    """Yield a data set and all data sets that it reads, from the last step to the sources."""
    waiting = [dataset] if seams.INPUTS.of(dataset, None) else []
    seen = 0
    while waiting and seen < 200:
        step = waiting.pop(0)
        seen += 1
        yield step
        try:
            waiting += seams.INPUTS.of(step)()
        except (NotImplementedError, AttributeError):
            continue


def sample_of(adapter: Any) -> str:
    """Return numbers that tell the rows of two calls apart; "" if the data can't be sampled.

    ``adapter`` is the data adapter of Keras.
    """
    import tensorflow as tf

    inputs, dataset = seams.ADAPTED_ARRAYS.of(adapter, None), seams.ADAPTED_DATASET.of(adapter, None)
    if inputs is None and seams.FIRST_BATCHES.of(adapter, None):
        # Keras has read the first batches of a generator, and gives them back.
        inputs = seams.FIRST_BATCHES.of(adapter)[:1]
    if inputs is not None:
        return _text_of(_numbers_of(tf.nest.flatten(inputs)))
    if not isinstance(dataset, tf.data.Dataset):
        return ""
    known = dataset.__dict__.get(_SAMPLE_OF)
    if known is None:
        numbers = [*_numbers_of(list(_sources(dataset))), *_numbers_of(_first_element(dataset))]
        known = dataset.__dict__[_SAMPLE_OF] = _text_of(numbers)
    return str(known)


def values_of(adapter: Any) -> str | None:
    """Return a digest of the values of arrays; None for other data. ``adapter`` is Keras's data adapter."""
    arrays = _arrays_of(adapter)
    # Keras keeps the adapter of validation data for all epochs.
    known: str | None = adapter.__dict__.get(_VALUES_OF)
    if known is None and arrays:
        checksum = 0
        for array, step in arrays:
            checksum = zlib.crc32(_bytes_of(array[::step]), checksum)
        known = adapter.__dict__[_VALUES_OF] = f"{checksum:08x}"
    return known


def sums_of(adapter: Any) -> dict[str, str]:
    """Return sums over blocks of rows of arrays, by names of the blocks: they tell where arrays differ."""
    sums: dict[str, str] = {}
    arrays = _arrays_of(adapter)
    for number, (array, step) in enumerate(arrays, 1):
        for rows in np.array_split(np.arange(0, len(array), step), max(1, _BLOCKS // len(arrays))):
            if len(rows):
                sums[f"rows {rows[0]} to {rows[-1]} of array {number}"] = _sums_of(array[rows].reshape(-1))
    return sums


def _sums_of(values: npt.NDArray[Any]) -> str:
    if values.dtype.kind not in "biuf":
        return f"{zlib.crc32(_bytes_of(values)):08x}"
    numbers = values.astype(np.float64)
    weighted = np.dot(numbers, np.linspace(1.0, 2.0, len(numbers)))
    return f"{weighted:.9g} {np.abs(numbers).sum():.9g}"


def close_sums(first: str, second: str) -> bool:
    """Return whether sums of numbers and of their sizes differ no more than machines round differently."""
    ours, theirs = first.split(), second.split()
    if len(ours) < 2 or len(theirs) < 2:
        return ours == theirs
    return abs(float(ours[0]) - float(theirs[0])) <= _ROUNDING * max(float(ours[1]), float(theirs[1]))


def _arrays_of(adapter: Any) -> list[tuple[npt.NDArray[Any], int]]:
    """Return the arrays that a call has in memory, and how many rows to go on by, to look at not too many."""
    import tensorflow as tf

    arrays = []
    for given in tf.nest.flatten(seams.ADAPTED_ARRAYS.of(adapter, None)):
        if isinstance(given, (np.ndarray, tf.Tensor)) or module_of(given).startswith("jax"):
            array = np.asarray(given)
            if array.ndim and array.size and array.dtype.kind in "biufSUO":
                arrays.append((array, array.nbytes // _MOST_BYTES + 1))
    return arrays


def _bytes_of(array: npt.NDArray[Any]) -> bytes | memoryview:
    if array.dtype.kind in "OSU":
        return "\n".join(map(_decoded, array.reshape(-1))).encode()
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _text_of(numbers: list[float]) -> str:
    return " ".join(f"{number:.6g}" for number in numbers)


def _numbers_of(arrays: list[Any]) -> list[float]:
    numbers: list[float] = []
    for array in [array for array in arrays if array is not None][:_MOST_ARRAYS]:
        try:
            numbers += _numbers(array)
        except Exception:
            # Data may be of any kind, and a sample that fails must not end a training.
            numbers.append(0.0)
    return numbers


def _first_element(dataset: tf.data.Dataset) -> list[Any]:
    """Return the first row after those steps that may run twice, if they do more than to slice arrays.

    It is one before the rows are batched, because a batch may be of many files.
    """
    import tensorflow as tf

    step: Any = dataset
    while not _is_pure(step):
        inputs = seams.INPUTS.of(step)()
        if not inputs:
            return []
        step = inputs[0]
    for part in [*chain(step)]:
        if kind_of(part) in _BATCHING:
            step = seams.INPUTS.of(part)()[0]
    if not any(kind_of(part) in _READING for part in chain(step)):
        return []
    try:
        (element,) = step.take(1)
    except Exception:
        # Empty, or of files that are not there: training says it better.
        return []
    return list(tf.nest.flatten(element))


def _is_pure(dataset: Any) -> bool:
    """Return whether all steps up to this one give the same elements whenever they run."""
    return all(
        kind_of(step) in _PURE
        and not any(
            stateful and not _PURE_OPERATION.fullmatch(name)
            for wrapper in seams.FUNCTIONS.of(step)()
            for name, stateful in operations_of(wrapper.function.graph)
        )
        for step in chain(dataset)
    )


def files_of(dataset: object) -> str | None:
    """Return the first files that a pipeline reads, without folders, and a digest of all; None for others."""
    import tensorflow as tf

    for tensor in _sources(dataset):
        if tensor.dtype != tf.string:
            continue
        values = np.asarray(tensor).reshape(-1)
        names = [os.path.basename(_decoded(value)) for value in values[:_MOST_FILES]]
        if names and all("." in name for name in names[:3]):
            digest = zlib.crc32("\n".join(names).encode())
            first = ", ".join([*names[:3], *["..."][: max(0, len(names) - 3)]])
            return f"{first} of {values.size} ({digest:08x})"
    return None


def close(first: str, second: str) -> bool:
    """Return whether two samples may be of the same rows."""
    ours, theirs = first.split(), second.split()
    return len(ours) == len(theirs) and bool(
        np.allclose(np.array(ours, float), np.array(theirs, float), rtol=_CLOSE, atol=1e-6, equal_nan=True)
    )


def _sources(dataset: object) -> Iterator[Any]:
    """Yield the tensors that a pipeline slices."""
    for step in chain(dataset):
        if type(step).__name__.strip("_") == "TensorSliceDataset":
            yield from seams.TENSORS.of(step)


def _numbers(array: npt.NDArray[np.generic] | tf.Tensor | pd.DataFrame) -> list[float]:
    """Return one number for each of some rows of an array."""
    if len(array.shape) == 0:
        return [_number(array)]
    rows = int(array.shape[0])
    places = sorted({0, rows // 3, 2 * rows // 3, rows - 1}) if rows else []
    return [_number(array.iloc[place] if hasattr(array, "iloc") else array[place]) for place in places]


def _number(row: object) -> float:
    values = np.asarray(row).reshape(-1)[:_MOST_VALUES]
    if values.dtype.kind in "OSU":
        # File names are sampled without their folders, which may differ between machines.
        return zlib.crc32("\n".join(os.path.basename(_decoded(value)) for value in values).encode()) / 2**32
    # Weights tell the order of the values, too.
    values = values.astype(np.float64)
    return float(np.dot(values, np.linspace(1.0, 2.0, len(values))) / max(1, len(values)))


def _decoded(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)

"""The calls of ``fit``, ``evaluate``, and ``predict`` that run, and what the workers compare of them.

Data are described without an iterator: a second one of a shuffled or stateful data set would change what
the training reads. So arrays are sampled, and a ``tf.data`` pipeline is described by its steps and by the
tensors at its source.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import re
import zlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

import numpy as np

from ...system.activity import ACTIVITY
from .. import seams
from ..process import keras_backend
from ..row_sums import weight_of_step
from ..rows import OfLength

if TYPE_CHECKING:
    import keras
    import numpy.typing as npt
    import pandas as pd
    import tensorflow as tf


class EpochIterator(Protocol):
    """What Keras makes in each call of ``fit``, ``evaluate``, or ``predict``."""

    data_adapter: Any
    steps_per_epoch: int | None
    steps_per_execution: int
    num_batches: int | None

    def catch_stop_iteration(self) -> contextlib.AbstractContextManager[None]:
        """Note inside the block that the data end."""


@dataclasses.dataclass(eq=False)
class Call:
    """A call of ``fit``, ``evaluate``, or ``predict`` of a model that has several workers."""

    name: str
    model: keras.Model
    arguments: Mapping[str, Any]
    #: The epoch iterator of the call; for ``fit`` that of the training data.
    epochs: EpochIterator | None = None
    compared: bool = False
    #: What was compared.
    document: dict[str, Any] = dataclasses.field(default_factory=dict)
    #: Sums over the rows that it has read, in which their order counts, and in how many executions.
    sums: npt.NDArray[np.float64] = dataclasses.field(default_factory=lambda: np.zeros(3))
    executions: int = 0

    #: The calls that run, the innermost last.
    current: ClassVar[list[Call]] = []

    @classmethod
    def of(cls, model: keras.Model) -> Call | None:
        """Return the innermost call, if it is one of this model."""
        return cls.current[-1] if cls.current and cls.current[-1].model is model else None

    def has_read(self, sums: npt.NDArray[np.float64]) -> None:
        """Note the sums of the rows of an execution."""
        self.sums += weight_of_step(self.executions) * sums
        self.executions += 1

    @classmethod
    def reads(cls, epochs: EpochIterator) -> None:
        """Note the epoch iterator that the innermost call has made."""
        if cls.current and cls.current[-1].epochs is None:
            cls.current[-1].epochs = epochs


@contextlib.contextmanager
def noted_call(name: str, model: keras.Model, arguments: Mapping[str, object]) -> Iterator[None]:
    """Note that a call runs, as long as the block does."""
    Call.current.append(Call(name, model, arguments))
    try:
        with ACTIVITY.call(name):
            yield
    finally:
        Call.current.pop()


#: Name of the entry with numbers that tell the rows of two calls apart.
SAMPLE: Final = "rows"

#: How many weights are compared one by one if their digests differ.
_MOST_WEIGHTS: Final = 300


def document_of(call: Call, epochs: EpochIterator | None) -> dict[str, Any]:
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
    if call.name != "predict":
        document["metrics"] = [plain_name(metric.name) for metric in model.metrics]
    document["steps per execution"] = model.steps_per_execution
    document["weights"] = hashlib.sha256(str(weights_of(model)).encode()).hexdigest()
    return {name: _json(value) for name, value in document.items()}


def _data(epochs: EpochIterator) -> dict[str, Any]:
    import tensorflow as tf

    adapter = epochs.data_adapter
    dataset = seams.ADAPTED_DATASET.of(adapter, None)
    local = seams.EPOCHS_DATASET.of(epochs, None)
    # On JAX, each process takes its rows of the batches of such an adapter (`on_jax.py`).
    by_rows = getattr(adapter, "_tfmuster_part", None) is not None
    divided = isinstance(local, tf.data.Dataset) or by_rows
    steps = epochs.steps_per_epoch or adapter.num_batches
    if not divided or isinstance(adapter, OfLength):
        # With JAX, the workers can't go on without one that has no more batches.
        sizes = {"steps": steps, "batch size": adapter.batch_size} if keras_backend() == "jax" else {}
        return {"whose rows": "each worker's own", **sizes}
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
        f"{list(array.shape)[1:]} {getattr(array.dtype, 'name', array.dtype)}"
        for array in arrays
        if hasattr(array, "shape") and hasattr(array, "dtype") and len(array.shape) > 0
    ]
    return document


def weights_of(model: keras.Model) -> dict[str, str]:
    """Return the shape and type of each weight, with the name that it would have in a fresh process."""
    weights = model.weights if model.built else []
    return {
        f"weight {number}": f"{plain_name(weight.path)} {tuple(weight.shape)} {weight.dtype}"
        for number, weight in enumerate(weights[:_MOST_WEIGHTS])
    } | {"number of weights": str(len(weights))}


def plain_name(name: str) -> str:
    """Remove the numbers that Keras adds to names: they count the layers that a process has made."""
    return re.sub(r"_\d+(?=/|$)", "", str(name))


def _json(value: Any) -> Any:
    if isinstance(value, (str, bool)) or value is None:
        return value
    if isinstance(value, list):
        return [str(element) for element in value]
    return float(value) if isinstance(value, float) else int(value)


#: How many arrays are sampled.
_MOST_ARRAYS = 4

#: Bytes of a row that are looked at.
_MOST_VALUES = 4096

#: Settings of the steps of a pipeline that decide which rows are in which batch.
_SETTINGS = ("batch_size", "count", "buffer_size", "seed", "seed2", "num_shards", "index")

#: Relative difference up to which two samples are equal. Machines may compute the same rows differently.
_CLOSE = 1e-3


def sample_of(epochs: EpochIterator) -> str:
    """Return numbers that tell the rows of two calls apart; "" if the data can't be sampled."""
    import tensorflow as tf

    adapter = epochs.data_adapter
    inputs = seams.ADAPTED_ARRAYS.of(adapter, None)
    if inputs is None and seams.FIRST_BATCHES.of(adapter, None):
        # Keras has read the first batches of a generator, and gives them back.
        inputs = seams.FIRST_BATCHES.of(adapter)[:1]
    if inputs is not None:
        arrays = tf.nest.flatten(inputs)
    else:
        arrays = list(_sources(seams.ADAPTED_DATASET.of(adapter, None)))
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


def pipeline_of(dataset: object) -> str:
    """Return the steps of a ``tf.data`` pipeline, with what decides which rows it yields; "" for others."""
    names = []
    for step in _chain(dataset):
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


def _chain(dataset: object) -> Iterator[Any]:
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


def _sources(dataset: object) -> Iterator[Any]:
    """Yield the tensors that a pipeline slices."""
    for step in _chain(dataset):
        if type(step).__name__.strip("_") == "TensorSliceDataset":
            yield from seams.TENSORS.of(step)


def _numbers(array: npt.NDArray[np.generic] | tf.Tensor | pd.DataFrame) -> list[float]:
    """Return one number for each of some rows of an array."""
    rows = int(array.shape[0])
    places = sorted({0, rows // 3, 2 * rows // 3, rows - 1}) if rows else []
    return [_number(array.iloc[place] if hasattr(array, "iloc") else array[place]) for place in places]


def _number(row: object) -> float:
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

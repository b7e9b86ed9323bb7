"""The calls of ``fit``, ``evaluate``, and ``predict`` that run, and what the workers compare of them."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

import numpy as np

from ...errors import DataError
from ...system.activity import ACTIVITY
from .. import seams
from ..process import keras_backend
from ..row_sums import weight_of_step
from ..rows import OfLength, attached_rows
from .samples import FILES, SAMPLE, VALUES, files_of, pipeline_of, sample_of, values_of

if TYPE_CHECKING:
    import keras
    import numpy.typing as npt


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
    #: Whether the program has set `stop_training` outside of callbacks, and whether all workers know of one.
    wishes_stop: bool = False
    stops: bool = False

    #: The calls that run, the innermost last.
    current: ClassVar[list[Call]] = []

    @classmethod
    def of(cls, model: keras.Model) -> Call | None:
        """Return the innermost call, if it is one of this model."""
        return cls.current[-1] if cls.current and cls.current[-1].model is model else None

    def has_read(self, sums: npt.NDArray[np.float64]) -> None:
        """Note the sums of the rows of an execution. Raises a DataError if a batch could not be divided."""
        # The other sums are NaN if the data have NaN, too.
        if np.isnan(sums[0]):
            raise DataError(
                "All parts of a batch must have the same number of rows.",
                found=f"a batch of {self.name} in which they have not, and no equal share for each worker",
                fix="join data sets with batches of one size, or of sizes that the number of workers divides",
                reason="batch-rows",
            )
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
        FILES: files_of(dataset),
        **attached_rows(dataset),
        SAMPLE: sample_of(adapter),
        VALUES: values_of(adapter),
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

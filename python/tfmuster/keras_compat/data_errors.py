"""Name errors of a worker's data, which TensorFlow buries in the text of an operation's error."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from typing import Any

from ..errors import DataError, TfmusterError

_LABEL = re.compile(r"label value of (-?\d+) which is outside the valid range of \[0, (\d+)\)")
#: A Python exception in the text of an operation's error: class, message, traceback.
_RAISED = re.compile(
    r"(?:^|[}\s])([A-Za-z_][\w.]*): (.*?)\n\s*Traceback \(most recent call last\):", re.DOTALL
)


def wrong_label(label: int, classes: int, row: int | None = None) -> DataError:
    """Return the error for a label that no output of the model stands for."""
    where = "" if row is None else f" in row {row}"
    fix = "number the classes from 0" if label == classes else "give the last layer one output per class"
    return DataError(
        f"A label must be one of the model's {classes} classes, 0 to {classes - 1}.",
        found=f"label {label}{where}",
        fix=fix,
        path=None,
        reason="labels",
    )


def generator_ended(batches: int, steps: int | None) -> DataError:
    """Return the error for a generator that ended before ``steps`` steps, or before another pass."""
    return DataError(
        "The generator ended before the training did.",
        found=f"{batches} batches, but each epoch has {steps} steps"
        if steps
        else f"{batches} batches, which served one pass over the data",
        fix="let it yield batches without end and pass steps_per_epoch, validation_steps or steps",
        path=None,
        reason="generator-ended",
    )


def raised(error: BaseException | str) -> TfmusterError:
    """Return the error for data that raised an exception."""
    if isinstance(error, TfmusterError):
        return error
    found = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
    return DataError(
        "The program's code for reading data must return a batch.",
        found=f"it raised {found.strip()}",
        fix="the exception comes from your data set or generator: see the traceback in this worker's log",
        path=None,
        reason="data-raised",
    )


def named(error: Exception) -> TfmusterError | None:
    """Return a named error for an error of TensorFlow, if the data are its cause."""
    text = str(error)
    if label := _LABEL.search(text):
        return wrong_label(int(label[1]), int(label[2]))
    if exception := _RAISED.search(text):
        return raised(f"{exception[1].rpartition('.')[2]}: {exception[2]}")
    return None


class Recorded:
    """What the Python code of a Keras data adapter has done.

    Attributes
    ----------
    exceptions : list of Exception
        What it has raised.
    ended : int or None
        The number of batches of a generator that has ended.
    """

    def __init__(self, adapter: Any) -> None:
        self.exceptions: list[Exception] = []
        self.ended: int | None = None
        # A PyDataset's adapter has the one, a generator's the other.
        if callable(make := getattr(adapter, "_get_iterator", None)):
            adapter._get_iterator = self._recording(make)
        if callable(make := getattr(adapter, "generator", None)):
            adapter.generator = self._recording(self._once(make))

    def _once(self, make: Callable[[], Iterator[Any]]) -> Callable[[], Iterator[Any]]:
        """Refuse a second pass, for which Keras would repeat the first two batches of a generator."""

        def batches() -> Iterator[Any]:
            if self.ended is not None:
                raise generator_ended(self.ended, None)
            number = 0
            for batch in make():
                number += 1
                yield batch
            self.ended = number

        return batches

    def _recording(self, make: Callable[[], Iterator[Any]]) -> Callable[[], Iterator[Any]]:
        @functools.wraps(make)
        def batches() -> Iterator[Any]:
            try:
                yield from make()
            except GeneratorExit:
                raise
            except Exception as error:
                self.exceptions.append(error)
                raise

        return batches


def check_labels(model: Any, adapter: Any) -> None:
    """Raise DataError if an array of labels has a class that the model has not (reason ``labels``).

    On GPUs TensorFlow raises no error for such a label; the loss is NaN.
    """
    import keras
    import numpy as np

    loss = getattr(model, "loss", None)
    if isinstance(loss, keras.losses.SparseCategoricalCrossentropy):
        if getattr(loss, "ignore_class", None) is not None:
            return
    elif loss not in ("sparse_categorical_crossentropy", keras.losses.sparse_categorical_crossentropy):
        return
    arrays = getattr(adapter, "_inputs", None)
    outputs = getattr(model, "outputs", None)
    if not isinstance(arrays, tuple) or len(arrays) < 2 or not outputs or len(outputs) != 1:
        return
    labels, classes = np.asarray(arrays[1]), outputs[0].shape[-1]
    if classes is None or not labels.size or labels.dtype.kind not in "iuf":
        return
    wrong = (labels < 0) | (labels >= classes)
    if wrong.any():
        first = np.unravel_index(np.argmax(wrong), wrong.shape)
        raise wrong_label(int(labels[first]), classes, int(first[0]))

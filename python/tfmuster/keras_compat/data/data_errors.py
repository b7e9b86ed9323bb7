"""Name errors of a worker's data, which TensorFlow buries in the text of an operation's error.

The error of a reader is raised as it is.
"""

from __future__ import annotations

import contextlib
import re
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import DataError, TfmusterError
from ...words import Argument, Code, Words
from .. import seams

if TYPE_CHECKING:
    import keras

_LABEL = re.compile(r"label value of (-?\d+) which is outside the valid range of \[0, (\d+)\)")

#: A Python exception in the text of an operation's error: class, message, traceback.
_RAISED = re.compile(
    r"(?:^|[}\s])([A-Za-z_][\w.]*): (.*?)\n\s*Traceback \(most recent call last\):", re.DOTALL
)

#: What TensorFlow puts around a message: names of functions, iterators and operations in the graph.
_AROUND = re.compile(
    r"\{\{function_node [^}]*\}\}\s*"
    r"|Error in user-defined function passed to \S+ transformation with iterator: "
    r"|Iterator::\S+: |\s*\[\[.*?\]\]|\s*\[Op:\w+\](?: name:)?|\s+name:\s*$"
    r"|Name: <unknown>, ",
    re.DOTALL,
)
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')

#: Files of code that is not the program's own.
_LIBRARY = re.compile(
    rf"/(site|dist)-packages/|/lib/python3\.\d+/|^<|^{re.escape(str(Path(__file__).parents[1]))}/"
)


def wrong_label(label: int, classes: int, row: int | None = None) -> DataError:
    """Return the error for a label that no output of the model stands for."""
    where = "" if row is None else f" in row {row}"
    fix = "number the classes from 0"
    fix += ", and give the last layer one output per class" if label >= classes else ""
    return DataError(
        f"A label must be one of the model's {classes} classes, 0 to {classes - 1}.",
        found=f"label {label}{where}",
        fix=fix,
        reason="labels",
    )


def generator_ended(batches: int, steps: int | None) -> DataError:
    """Return the error for a generator that ended before ``steps`` steps, or before another pass."""
    return DataError(
        "The generator ended before the training did.",
        found=f"{batches} batches in all, and each epoch takes {steps} of them"
        if steps
        else f"{batches} batches, which served one pass over the data",
        fix="let it yield batches without end and pass steps_per_epoch, validation_steps or steps",
        reason="generator-ended",
    )


def raised(error: BaseException | str, place: str = "") -> TfmusterError:
    """Return the error for data that raised an exception, at a line of the program (``place``) if known."""
    if isinstance(error, TfmusterError):
        return error
    text = str(error)
    if not isinstance(error, str):
        text = f"{type(error).__name__}: {error}"
        frames = "".join(traceback.format_tb(error.__traceback__))
        # The exception of another process has its traceback as the text of its cause.
        place = _last_place(f"{frames}\n{error.__cause__ or ''}")
    return DataError(
        "The program's code for reading data must return a batch.",
        found=f"it raised {text.strip()}" + (f" ({place})" if place else ""),
        fix="correct that line, or the data that it reads"
        if place
        else "the exception comes from your data set or generator: see the traceback in this worker's log",
        reason="data-raised",
    )


def _last_place(frames: str) -> str:
    """Return the last line of the program's own code in a traceback: ``train.py, line 3, in read``."""
    places = [place for place in _FRAME.findall(frames) if not _LIBRARY.search(place[0])]
    return "{}, line {}, in {}".format(*places[-1]) if places else ""


def exception_in(text: str) -> tuple[str, str] | None:
    """Return the Python exception in the text of an operation's error, and its place; None without one."""
    text = plain_text(text)
    match = _RAISED.search(text)
    if match is None:
        return None
    kind = match[1].rpartition(".")[2]
    return f"{kind}: {match[2].strip()}", _last_place(text[match.end() :])


def plain_text(message: str) -> str:
    """Return the message of an operation's error without what TensorFlow puts around it."""
    return _AROUND.sub("", message).strip()


def unreadable_row(text: str, path: str | None, row: int | None) -> DataError:
    """Return the error for a row of the data that can't be read.

    ``row`` counts from 1 in a file, and from 0 in a data set without one; None means the whole file.
    """
    where = [path] if path is not None and path not in text else []
    where += [f"row {row}"] if row is not None else []
    return DataError(
        "Every row of the data must be readable.",
        found=text + (f" ({', '.join(where)})" if where else ""),
        fix="correct the row, or leave it out" if row is not None else "replace the file, or leave it out",
        path=path,
        row=row,
        reason="unreadable-row",
    )


def data_error_in(error: Exception) -> TfmusterError | None:
    """Return a named error for an error of TensorFlow, if the data are its cause."""
    text = str(error)
    if label := _LABEL.search(text):
        return wrong_label(int(label[1]), int(label[2]))
    if exception := exception_in(text):
        return raised(*exception)
    return None


def check_labels(model: keras.Model, adapter: object) -> None:
    """Raise DataError if an array of labels has a class that the model has not (reason ``labels``).

    On GPUs TensorFlow raises no error for such a label; the loss is NaN.
    """
    arrays, classes = seams.ADAPTED_ARRAYS.of(adapter, None), classes_of(model)
    if isinstance(arrays, tuple) and len(arrays) > 1 and classes is not None:
        check_classes(arrays[1], classes)


def classes_of(model: keras.Model) -> int | None:
    """Return the number of classes of a model whose labels are their numbers; None for other models."""
    import keras

    loss = getattr(model, "loss", None)
    if isinstance(loss, keras.losses.SparseCategoricalCrossentropy):
        if getattr(loss, "ignore_class", None) is not None:
            return None
    elif loss not in ("sparse_categorical_crossentropy", keras.losses.sparse_categorical_crossentropy):
        return None
    outputs = getattr(model, "outputs", None)
    return outputs[0].shape[-1] if outputs and len(outputs) == 1 else None


def check_classes(labels: object, classes: int, *, has_row: bool = True) -> None:
    """Raise DataError if a label is none of these classes. Without ``has_row``, its row is not told."""
    import numpy as np

    array = np.asarray(labels)
    if not array.size or array.dtype.kind not in "iuf":
        return
    wrong = (array < 0) | (array >= classes)
    if wrong.any():
        first = np.unravel_index(np.argmax(wrong), wrong.shape)
        raise wrong_label(int(array[first]), classes, int(first[0]) if has_row else None)


_kept: list[TfmusterError] = []


def keep_error(error: TfmusterError) -> None:
    """Keep an error that a thread of TensorFlow's input pipeline is about to raise."""
    _kept.append(error)


def of_whole_batch(error: Exception, workers: int) -> DataError | None:
    """Return the error for a step that computes with the rows of the whole batch; None for another error.

    One process has as many rows as the batch, and each worker has a part of them. TensorFlow names both.
    """
    if state := re.search(r"Expected batch size: (\d+)\s+- Received batch size: (\d+)", str(error)):
        whole, own = map(int, state.groups())
        return DataError(
            "A layer with a state of each row must have the number of rows that it gets: each worker has a "
            "part of a batch.",
            found=f"{own} of {whole} rows, and a state of {whole}",
            fix=Words("write {} into the shape of the input", Argument("batch_size", whole // workers)),
            reason="whole-batch",
        )
    # Other axes than the first have no rows, such as the outputs of a layer that do not fit the labels.
    shapes = re.search(r"\[(\d+)[\d,]*\](?: vs\.|,) \[(\d+)[\d,]*\]", str(error))
    if shapes is None:
        return None
    own, whole = sorted(map(int, shapes.groups()))
    if own not in (whole // workers, -(-whole // workers)) or own == whole:
        return None
    return DataError(
        "A step of the program must compute with the rows that it gets: each worker has a part of a batch.",
        found=f"{own} of {whole} rows, and something of the size {whole} ({shapes[0]})",
        fix=Words("write {} in place of the batch size", Code("tf.shape(x)[0]", "tf$shape(x)[1]")),
        reason="whole-batch",
    )


@contextlib.contextmanager
def readers_errors() -> Iterator[None]:
    """Inside the block, replace an error of TensorFlow with the error of a reader that caused it."""
    import tensorflow as tf

    try:
        yield
    except tf.errors.OpError as error:
        if not _kept:
            raise
        first = _kept[0]
        _kept.clear()
        raise first from error

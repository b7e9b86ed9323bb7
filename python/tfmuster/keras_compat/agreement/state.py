"""Compare the values that the next step depends on: weights, optimizer state, random generators.

They are equal on all workers, bit for bit, because all start with the chief's and apply the same sums. If
they are not, a program has set them on one worker alone, or a computer or network has changed a bit. One
checksum of all values goes with what the workers compare anyway. Only if it differs, they compare value by
value. Workers with other processors or GPUs may round differently, so theirs are compared as numbers.
"""

from __future__ import annotations

import functools
import platform
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ...errors import DataError, StateError
from ...words import Code, Words
from .. import seams
from ..process import keras_backend
from .documents import Call
from .refusals import all_close, compare, rows_advice, tasks_text
from .samples import close

if TYPE_CHECKING:
    import keras
    import numpy.typing as npt

    from ..process import Difference

#: How many values are compared in one document.
_MOST_VALUES: Final = 300
#: Names of what is compared.
_VALUES: Final = "values"
_ROWS: Final = "rows"
_NUMBERS: Final = "numbers"
_NUMBER: Final = "number of values"
_ARITHMETIC: Final = "processors and GPUs"
_ADVICE: Final = Words(
    "set weights and learning rates on every worker alike: pass what one worker has read or drawn through "
    "{}. If the program sets none, memory or a network has changed bits, and the job can continue from its "
    "last checkpoint, at which all workers agreed",
    Code("tfmuster.broadcast()", "broadcast()"),
)


def state_of(model: keras.Model) -> list[keras.Variable]:
    """Return the variables that the next step depends on: weights, random generators, optimizer state."""
    metrics = {id(variable) for variable in metrics_of(model)}
    optimizer = getattr(model, "optimizer", None)
    variables = [*model.variables, *(optimizer.variables if optimizer is not None else ())]
    return [variable for variable in variables if id(variable) not in metrics]


def _common(model: keras.Model) -> list[keras.Variable]:
    """Return the variables that all workers have alike: not the gradients that each one accumulates."""
    optimizer = getattr(model, "optimizer", None)
    optimizers = optimizer, getattr(optimizer, "inner_optimizer", None)
    own = {id(variable) for one in optimizers for variable in seams.ACCUMULATED.of(one, None) or ()}
    return [variable for variable in state_of(model) if id(variable) not in own]


def metrics_of(model: keras.Model) -> list[keras.Variable]:
    """Return the variables of a model's metrics."""
    return [variable for metric in model.metrics for variable in metric.variables]


def checksum(values: Iterable[npt.NDArray[Any]]) -> str:
    """Return a checksum of some arrays, such as the values of a model's state."""
    return f"{zlib.crc32(' '.join(map(_checksum, values)).encode()):08x}"


def checksum_of(model: keras.Model) -> str:
    """Return the checksum of a model's state on this worker."""
    return checksum(_values_of(model))


def agree_on_state(model: keras.Model, *, epoch: int) -> None:
    """Raise an error if another worker has other values, or has read other rows in this epoch, from 1.

    All workers must call it. A StateError says that the values differ, a DataError that the rows do.
    """
    call = Call.of(model)
    if call is None or not call.compared:
        return
    document = {_VALUES: checksum_of(model), **_rows_of(call)}
    different = compare(f"the weights of {call.name}", document, f"call {call.name}")
    if _VALUES in different:
        refuse_other_values(model, since=f"since epoch {epoch}", kind=StateError)
    _refuse_rows(different, f"in epoch {epoch}")


def agree_on_rows(model: keras.Model) -> None:
    """Raise a DataError if another worker has read other rows in the call that ends."""
    call = Call.of(model)
    if call is not None and call.compared:
        _refuse_rows(
            compare(f"the rows of {call.name}", _rows_of(call), f"call {call.name}"), f"in {call.name}"
        )


def _rows_of(call: Call) -> dict[str, str]:
    rows, weighted, sizes = call.sums
    return {_ROWS: f"{rows:.17g}", _NUMBERS: f"{weighted:.9g} {sizes:.9g}"}


def _refuse_rows(different: Mapping[str, Difference], when: str) -> None:
    other = different.get(_ROWS) or different.get(_NUMBERS)
    if other is None or (_ROWS not in different and all_close(other)):
        return
    (_, (first, *_)), *rest = other.values
    others = tasks_text(task for _, tasks in rest for task in tasks)
    raise DataError(
        f"The workers have read other rows {when}, or the same in another order.",
        found=f"those of {others} are not those of {first}",
        fix=rows_advice(),
        reason="workers-differ",
        differences={"rows": {tasks_text(tasks): value for value, tasks in other.values}},
    )


def refuse_other_values(model: keras.Model, *, since: str, kind: type[DataError] = DataError) -> None:
    """Raise an error of a kind that names the first value that differs, unless only the rounding does."""
    duty, state = "compare its weights", _common(model)
    about = {_NUMBER: len(state), _ARITHMETIC: _arithmetic()}
    different = compare("the weights", about, duty)
    rounds = different.pop(_ARITHMETIC, None) is not None
    texts = [] if different else [size_of(v) if rounds else _shown(v) for v in _values_of(model)]
    for first in range(0, len(texts), _MOST_VALUES):
        part = {str(number): text for number, text in enumerate(texts[first:][:_MOST_VALUES], first)}
        for number, difference in compare("the weights", part, duty).items():
            sizes = [str(value) for value, _ in difference.values]
            if not (rounds and all(close(sizes[0], size) for size in sizes[1:])):
                different[number] = difference
    if not different:
        return
    names = {str(number): variable.path for number, variable in enumerate(state)} | {_NUMBER: _NUMBER}
    # Another learning rate makes other weights.
    rates = [number for number in different if "learning_rate" in names[number]]
    first_name = next(iter(rates or different))
    name, values = names[first_name], different[first_name].values
    text = name
    if first_name == _NUMBER or len(state[int(first_name)].shape) == 0:
        text += f", {values[1][0]} for {values[0][0]}"
    if len(different) > 1:
        text += f" (the first of {len(different)})"
    others = tasks_text(task for _, tasks in values[1:] for task in tasks)
    raise kind(
        f"The weights of {others} differ from those of {values[0][1][0]} {since}: {text}.",
        fix=_ADVICE,
        reason="workers-differ",
        differences={name: {tasks_text(tasks): value for value, tasks in values}},
    )


def _checksum(values: npt.NDArray[Any]) -> str:
    if values.dtype.kind in "OSU":
        return f"{zlib.crc32(repr(values.tolist()).encode()):08x}"
    return f"{zlib.crc32(np.ascontiguousarray(values).view(np.uint8).data):08x}"


def _values_of(model: keras.Model) -> Iterator[npt.NDArray[Any]]:
    """Yield what this worker has of each variable that all have alike."""
    strategy = seams.MODEL_STRATEGY.of(model, None)
    for variable in _common(model):
        value = variable.value
        if strategy is not None:
            # Reading a variable of all workers may wait for them.
            yield np.asarray(strategy.experimental_local_results(value)[0].numpy())
        else:
            # On JAX, what is divided among processes is not the same on them.
            yield np.asarray(value.addressable_data(0)) if value.is_fully_replicated else np.zeros(0)


def _shown(values: npt.NDArray[Any]) -> str:
    """Return what an error shows of values: the number with all its digits, if there is one."""
    return str(values[()]) if values.ndim == 0 and values.dtype.kind in "biuf" else _checksum(values)


def size_of(values: npt.NDArray[Any]) -> str:
    """Return how large values are, as a number that also tells their order."""
    if values.dtype.kind not in "biuf" or not values.size:
        return _shown(values)
    squares = np.square(values.astype(np.float64).reshape(-1))
    return f"{np.sqrt(np.dot(squares, np.linspace(1.0, 2.0, squares.size)) / squares.size):.4g}"


@functools.cache
def _arithmetic() -> str:
    """Return what the rounding depends on: the kind of the processor and of the GPUs."""
    try:
        processor = re.search(r"^(?:flags|Features)\s*:.*$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        processor = None
    flags = zlib.crc32(processor[0].encode()) if processor else 0
    return " ".join([platform.machine(), f"{flags:08x}", *_gpus()])


def _gpus() -> list[str]:
    if keras_backend() == "jax":
        import jax

        return [str(device.device_kind) for device in jax.local_devices()]
    import tensorflow as tf

    details = map(tf.config.experimental.get_device_details, tf.config.list_physical_devices("GPU"))
    return [str(device.get("device_name")) for device in details]

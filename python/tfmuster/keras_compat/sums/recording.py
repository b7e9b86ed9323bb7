"""Record the gradients that optimizers get in one step, to compare them with those of one process."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from .. import seams

if TYPE_CHECKING:
    import keras
    import numpy.typing as npt
    import tensorflow as tf

    #: A sparse gradient has rows of its own; None is that of a weight without one.
    Gradient: TypeAlias = tf.Tensor | tf.IndexedSlices | None

_trace = threading.local()


class Rows(NamedTuple):
    """Some rows of a gradient; the others are zeros."""

    #: Places of rows, in rising order; shape [n].
    places: npt.NDArray[np.int64]
    #: Sums of the gradient's parts with this place; shape [n, ...].
    values: npt.NDArray[Any]
    #: Sums of the squares of these parts: optimizers square each.
    squares: npt.NDArray[Any]


class GradientRecord:
    """The gradients of one step, as optimizers get them: sums over the workers, before they are clipped."""

    def __init__(self) -> None:
        #: For each use of an optimizer, in the order of the trace, the names of its gradients.
        self._names: list[list[str]] = []
        self._values: dict[int, list[npt.NDArray[Any] | Rows]] = {}

    @contextlib.contextmanager
    def tracing(self, wanted: tf.Tensor | bool = True) -> Iterator[None]:
        """Inside the block, a step is traced that records its gradients if ``wanted``, a bool, is true."""
        self._names.clear()
        _trace.record = self, wanted
        try:
            yield
        finally:
            _trace.record = None

    def clear(self) -> None:
        """Forget what was recorded."""
        self._values.clear()

    def gradients(self) -> dict[str, npt.NDArray[Any] | Rows]:
        """Return the recorded gradients by the names of their weights."""
        return {
            name: value
            for number, values in sorted(self._values.items())
            for name, value in zip(self._names[number], values, strict=True)
        }

    def add(
        self, optimizer: keras.optimizers.Optimizer, gradients: Sequence[Any], wanted: tf.Tensor | bool
    ) -> None:
        """Record the gradients of a use of an optimizer."""
        import tensorflow as tf

        present = [gradient for gradient in gradients if gradient is not None]
        number = len(self._names)
        self._names.append(_names(optimizer, present, self._names))
        parts = [(g.values, g.indices) if isinstance(g, tf.IndexedSlices) else (g,) for g in present]
        sizes = [len(part) for part in parts]

        def keep(*arrays: npt.NDArray[Any]) -> np.bool_:
            left = iter(arrays)
            # They belong to TensorFlow, which may use their memory again.
            values = [[np.array(next(left)) for _ in range(size)] for size in sizes]
            self._values[number] = [v[0] if len(v) == 1 else _rows(v[0], v[1]) for v in values]
            return np.bool_(True)

        flat = [tensor for part in parts for tensor in part]
        if wanted is True:
            tf.numpy_function(keep, flat, tf.bool)
        else:
            tf.cond(wanted, lambda: tf.numpy_function(keep, flat, tf.bool), lambda: tf.constant(False))


def record_gradients(optimizer: keras.optimizers.Optimizer, gradients: Sequence[Gradient]) -> None:
    """Record the gradients that an optimizer gets, if the step that is traced records them."""
    if (tracing := getattr(_trace, "record", None)) is not None:
        record, wanted = tracing
        record.add(optimizer, gradients, wanted)


def _names(
    optimizer: keras.optimizers.Optimizer, gradients: Sequence[Any], earlier: list[list[str]]
) -> list[str]:
    """Return the names of the weights to which gradients belong; later uses of a weight have a number."""
    weights = iter(seams.TRAINED_VARIABLES.of(optimizer))
    of_use: list[str] = []
    for gradient in gradients:
        # Weights without a gradient are left out.
        weight = next((w for w in weights if tuple(w.shape) == tuple(gradient.shape)), None)
        name = f"gradient {len(of_use)}" if weight is None else weight.path
        uses = sum(known.partition(" (use ")[0] == name for names in earlier for known in names)
        of_use.append(f"{name} (use {uses + 1})" if uses else name)
    return of_use


def _rows(values: npt.NDArray[Any], places: npt.NDArray[Any]) -> Rows:
    """Return rows with one sum for each place."""
    unique, inverse = np.unique(places.astype(np.int64), return_inverse=True)
    sums = np.zeros((2, len(unique), *values.shape[1:]), values.dtype)
    for total, parts in zip(sums, (values, values * values), strict=True):
        np.add.at(total, inverse.reshape(-1), parts)
    return Rows(unique, *sums)

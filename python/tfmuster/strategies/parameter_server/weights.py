"""Place a model's weights and optimizer state on the parameter servers, and copy them back."""

from __future__ import annotations

import contextlib
import re

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from ...errors import ModelError
from ...keras_compat import seams
from .serving import partitioned_variables

# These optimizers need whole variables, not pieces.
_WHOLE = ("Adafactor", "Lamb", "Muon")
_PIECE = re.compile(r"__piece(\d+)(?=_|$)")


class PlacedWeights:
    """A model's variables on the parameter servers."""

    def __init__(self, strategy: tf.distribute.ParameterServerStrategy, model: keras.Model) -> None:
        self._model = model
        self._trainable = list(model.trainable_variables)
        metrics = {id(variable) for metric in model.metrics for variable in metric.variables}
        self._others = [v for v in model.non_trainable_variables if id(v) not in metrics]
        if getattr(model.optimizer, "inner_optimizer", None) is not None:
            raise ModelError(
                "Loss scaling is not supported with parameter servers.",
                found=type(model.optimizer).__name__,
                fix="compile with the plain optimizer, and mixed_bfloat16 or float32",
                reason="optimizer",
            )
        model.optimizer.build(self._trainable)
        with strategy.scope():
            #: Number of updates applied so far.
            self.updates = tf.Variable(0, dtype=tf.int64, trainable=False, name="updates")
            #: The pieces of each trainable weight along the first axis, usually one.
            self.pieces = [self._place(v) for v in self._trainable]
            #: The model's other weights: moving statistics, states of random generators.
            self.others = [tf.Variable(v.numpy(), trainable=False, name=v.name) for v in self._others]
            kind = type(model.optimizer)
            self.optimizer = kind.from_config(model.optimizer.get_config())
            self.optimizer.build(self.flat)
        self._rate = -1.0
        self.push()

    @property
    def flat(self) -> list[keras.Variable]:
        """Return all pieces of all trainable weights."""
        return [piece for pieces in self.pieces for piece in pieces]

    def _place(self, weight: keras.Variable) -> list[keras.Variable]:
        whole = weight.constraint is not None or type(self._model.optimizer).__name__ in _WHOLE
        with contextlib.nullcontext() if whole else partitioned_variables():
            placed = tf.Variable(weight.numpy(), name=weight.name)
        parts = list(getattr(placed, "variables", [placed]))
        pieces = []
        for number, part in enumerate(parts):
            piece = keras.Variable(part, dtype=weight.dtype, name=weight.name)
            # The optimizer names its variables after this path; `_slots` maps the names back to the model's.
            seams.PATH.set(piece, weight.path if len(parts) == 1 else f"{weight.path}__piece{number}")
            piece.constraint = weight.constraint
            pieces.append(piece)
        return pieces

    # ---- in a worker's function -------------------------------------------------------------------------

    def read(self) -> list[tf.Tensor]:
        """Return the trainable weights as whole tensors."""
        return [
            tf.concat([tf.identity(p.value) for p in pieces], 0)
            if len(pieces) > 1
            else tf.identity(pieces[0].value)
            for pieces in self.pieces
        ]

    def cut(self, gradients: list[tf.Tensor]) -> list[tf.Tensor]:
        """Split gradients of whole weights into gradients for `flat`."""
        cut: list[tf.Tensor] = []
        for gradient, pieces in zip(gradients, self.pieces, strict=True):
            sizes = [int(piece.shape[0]) for piece in pieces] if len(pieces) > 1 else None
            cut += tf.split(gradient, sizes, 0) if sizes else [gradient]
        return cut

    def mapping(
        self, values: list[tf.Tensor], others: list[tf.Tensor]
    ) -> list[tuple[keras.Variable, tf.Tensor]]:
        """Return the model's variables, each with its value within a worker's function."""
        return list(zip(self._trainable, values, strict=True)) + list(zip(self._others, others, strict=True))

    def new_others(self, scope: keras.StatelessScope) -> list[tf.Tensor]:
        """Return the values of the other weights after a forward pass in a stateless scope."""
        return [scope.get_current_value(variable) for variable in self._others]

    # ---- between the model and the parameter servers ----------------------------------------------------

    def push(self) -> None:
        """Copy the model's weights and optimizer state to the parameter servers."""
        for weight, pieces in zip(self._trainable, self.pieces, strict=True):
            _assign(pieces, weight.numpy())
        for other, placed in zip(self._others, self.others, strict=True):
            placed.assign(other.numpy())
        slots = self._slots()
        for variable in self._model.optimizer.variables:
            _assign(slots[_slot_name(self._model.optimizer, variable)], variable.numpy())
        self.updates.assign(int(self._model.optimizer.iterations.numpy()))

    def push_learning_rate(self) -> None:
        """Copy the learning rate, which a callback may have changed, to the parameter servers."""
        rate = self._model.optimizer.learning_rate
        # A schedule depends on the number of updates, which the parameter servers count.
        if isinstance(rate, keras.Variable) and float(rate.numpy()) != self._rate:
            self._rate = float(rate.numpy())
            self.optimizer.learning_rate = self._rate

    def pull(self) -> None:
        """Copy the weights and the optimizer state from the parameter servers to the model."""
        for weight, pieces in zip(self._trainable, self.pieces, strict=True):
            weight.assign(_whole(pieces))
        for other, placed in zip(self._others, self.others, strict=True):
            other.assign(placed.numpy())
        slots = self._slots()
        for variable in self._model.optimizer.variables:
            variable.assign(_whole(slots[_slot_name(self._model.optimizer, variable)]))
        # Keras's own counter may lose concurrent steps, because it is read and then written.
        self._model.optimizer.iterations.assign(self.updates.numpy())

    def _slots(self) -> dict[str, list[keras.Variable]]:
        """Return the optimizer's variables on the parameter servers, by name in the model's optimizer."""
        slots: dict[str, list[keras.Variable]] = {}
        for variable in self.optimizer.variables:
            slots.setdefault(_PIECE.sub("", _slot_name(self.optimizer, variable)), []).append(variable)
        return slots


def _assign(pieces: list[keras.Variable], value: npt.NDArray[np.generic]) -> None:
    # A scalar has no first axis, and is never in pieces.
    parts = np.split(value, np.cumsum([p.shape[0] for p in pieces[:-1]])) if len(pieces) > 1 else [value]
    for piece, part in zip(pieces, parts, strict=True):
        piece.assign(part)


def _slot_name(optimizer: keras.optimizers.Optimizer, variable: keras.Variable) -> str:
    return str(variable.path).removeprefix(f"{optimizer.name}/")


def _whole(pieces: list[keras.Variable]) -> npt.NDArray[np.generic]:
    values = [piece.numpy() for piece in pieces]
    whole: npt.NDArray[np.generic] = np.concatenate(values) if len(values) > 1 else values[0]
    return whole

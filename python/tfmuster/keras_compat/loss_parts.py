"""Make the parts of a loss that a model's own code computes add up to the loss of one process.

In a step, a worker has a part of the rows. What Keras's losses return is scaled to be a part of the loss
(:mod:`.loss_reduction`). A ``train_step`` or ``compute_loss`` of a user may also take the mean of some rows
itself, and such a mean must be multiplied by the worker's share of the rows. Which it is can be read off the
graph: a loss is a sum of terms, and each term is

- a part already, if it comes from one of Keras's losses, or from ``tf.nn.compute_average_loss``;
- a mean over rows, or something without rows, such as the norm of a weight: the shares add up to 1;
- a sum over rows: the workers' sums add up as they are.

A term that is none of these, such as the root of a mean, is taken as a mean, and the run's notes say so.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Container, Iterator
from typing import Any, NamedTuple

from .notes import tell

_step = threading.local()

#: Operations that give out what they get in, up to its type and shape.
_SAME = frozenset({"Identity", "Cast", "Reshape", "Squeeze", "EnsureShape", "CheckNumerics"})


class Term(NamedTuple):
    """A term of a loss: ``factor * tensor``; ``adds_up`` if the workers' values add up as they are."""

    tensor: Any
    factor: Any
    adds_up: bool


def begin(share: Any) -> None:
    """Note the worker's share of the rows of this step, a scalar float32 tensor; None ends the step."""
    _step.share = share
    _step.parts = {}


@contextlib.contextmanager
def only_building() -> Iterator[None]:
    """Inside the block, gradients are zeros: the weights have shapes, but no values yet."""
    _step.only_building = True
    try:
        yield
    finally:
        _step.only_building = False


def mark_part(tensor: Any) -> Any:
    """Note that the workers' values of a scalar add up to that of one process; return it."""
    if getattr(_step, "share", None) is not None and hasattr(tensor, "shape") and tensor.shape.rank == 0:
        _step.parts[id(tensor)] = tensor  # kept, so that no other tensor gets its id
    return tensor


def as_part(tensor: Any) -> Any:
    """Return a scalar of this step such that the workers' values add up to the value of one process."""
    import tensorflow as tf

    total = None
    for term in _terms(tensor):
        value = term.tensor if term.factor is None else term.tensor * term.factor
        if not term.adds_up:
            value = value * tf.cast(_step.share, value.dtype)
        total = value if total is None else total + tf.cast(value, total.dtype)
    return mark_part(total)


def patch_tapes(tape: Any, nn: Any) -> None:
    """Make ``GradientTape.gradient`` differentiate the worker's part of a loss in a step of ``fit``."""
    import tensorflow as tf

    stock = tape.gradient

    @functools.wraps(stock)
    def gradient(
        self: Any, target: Any, sources: Any, output_gradients: Any = None, *args: Any, **kw: Any
    ) -> Any:
        if getattr(_step, "only_building", False):
            return tf.nest.map_structure(lambda v: tf.zeros(v.shape, v.dtype), sources)
        scalar = isinstance(target, tf.Tensor) and target.shape.rank == 0 and output_gradients is None
        if getattr(_step, "share", None) is None or not scalar or not _all_variables(sources):
            return stock(self, target, sources, output_gradients, *args, **kw)
        terms = _terms(target)
        if all(term.adds_up for term in terms):
            return stock(self, target, sources, None, *args, **kw)
        # The tape knows the terms, but not a new sum of them that is made after it was closed.
        weights = []
        for term in terms:
            weight = (
                tf.ones_like(term.tensor) if term.factor is None else tf.cast(term.factor, term.tensor.dtype)
            )
            weights.append(weight if term.adds_up else weight * tf.cast(_step.share, weight.dtype))
        return stock(self, [term.tensor for term in terms], sources, weights, *args, **kw)

    tape.gradient = gradient
    for name in ("compute_average_loss", "scale_regularization_loss"):
        stock_nn = getattr(nn, name)
        setattr(
            nn, name, functools.wraps(stock_nn)(lambda *a, _stock=stock_nn, **k: mark_part(_stock(*a, **k)))
        )


def _all_variables(sources: Any) -> bool:
    import keras
    import tensorflow as tf

    return all(isinstance(each, (tf.Variable, keras.Variable)) for each in tf.nest.flatten(sources))


def _terms(tensor: Any, factor: Any = None) -> list[Term]:
    """Return the terms of a scalar of the current step."""
    if id(tensor) in _step.parts:
        return [Term(tensor, factor, adds_up=True)]
    if not hasattr(tensor, "graph"):  # computed eagerly, so nothing is known of it
        return [Term(tensor, factor, adds_up=False)]
    kind, inputs = tensor.op.type, list(tensor.op.inputs)
    if kind in (*_SAME, "Sum", "Mean") and inputs[0].shape.rank == 0:
        return _terms(inputs[0], factor)
    if kind == "Sum" and inputs[0].op.type == "Pack" and inputs[0].shape.rank == 1:  # of a list of numbers
        return [term for each in inputs[0].op.inputs for term in _terms(each, factor)]
    if kind in ("AddV2", "Add", "AddN", "Sub") and all(each.shape.rank == 0 for each in inputs):
        last = _times(factor, -1.0) if kind == "Sub" else factor
        return [*_terms(inputs[0], factor), *(term for each in inputs[1:] for term in _terms(each, last))]
    if kind == "Neg":
        return _terms(inputs[0], _times(factor, -1.0))
    if kind in ("Mul", "RealDiv", "DivNoNan") and all(each.shape.rank == 0 for each in inputs):
        return _product(tensor, inputs, factor, divides=kind != "Mul")
    if kind == "StopGradient":
        return [Term(tensor, factor, adds_up=all(term.adds_up for term in _terms(inputs[0])))]
    if kind in ("Sum", "Mean"):
        return [Term(tensor, factor, adds_up=_over_rows(tensor) == "Sum")]
    if not _without_rows(tensor):
        tell("loss", f"a term of the loss is neither a sum nor a mean of rows ({kind}); it counts as a mean")
    return [Term(tensor, factor, adds_up=False)]


def _product(tensor: Any, inputs: list[Any], factor: Any, *, divides: bool) -> list[Term]:
    left, right = inputs
    if _counts_rows(right) and divides:  # a sum over rows by their number
        return [Term(tensor, factor, adds_up=False)]
    if _without_rows(left) and _without_rows(right):
        return [Term(tensor, factor, adds_up=False)]
    if _without_rows(left) and not divides:
        left, right = right, left
    if not _without_rows(right):
        tell("loss", "a term of the loss is a product of two numbers of the batch; it counts as a mean")
        return [Term(tensor, factor, adds_up=False)]
    terms = _terms(left, _times(factor, 1 / right if divides else right))
    kinds = {term.adds_up for term in terms}
    # The product itself has a gradient with respect to weights in its other factor, too.
    return [Term(tensor, factor, kinds.pop())] if len(kinds) == 1 else terms


def _times(factor: Any, other: Any) -> Any:
    import tensorflow as tf

    return other if factor is None else factor * tf.cast(other, getattr(factor, "dtype", tf.float32))


def _over_rows(tensor: Any) -> str | None:
    """Return the operation that has taken the rows together, ``"Sum"`` or ``"Mean"``, if it is known."""
    while tensor.op.type in ("Sum", "Mean"):
        whole = tensor.op.inputs[0]
        if whole.shape.rank is None or whole.shape[:1] == [None]:
            return str(tensor.op.type)
        tensor = whole
    return None


def _ancestors(tensor: Any, *, until: Container[str] = ()) -> Iterator[Any]:
    """Yield a tensor of a graph and all from which it is computed there, not beyond some operations."""
    seen, waiting = set(), [tensor]
    while waiting:
        each = waiting.pop()
        if id(each) not in seen:
            seen.add(id(each))
            yield each
            if each.op.type not in until:
                waiting += each.op.inputs


def _without_rows(tensor: Any) -> bool:
    """Return whether a scalar is computed from weights and constants alone."""
    if not hasattr(tensor, "graph"):
        return True
    # Nothing but the number of rows is unknown when a step is traced.
    return all(
        each.shape.rank is not None and None not in list(each.shape) and id(each) not in _step.parts
        for each in _ancestors(tensor)
    )


def _counts_rows(tensor: Any) -> bool:
    """Return whether a scalar is the size of something with rows."""
    if not hasattr(tensor, "graph"):
        return False
    sizes = ("Shape", "Size")
    types = {each.op.type for each in _ancestors(tensor, until=sizes)}
    return not types.isdisjoint(sizes) and types.isdisjoint(("Sum", "Mean"))

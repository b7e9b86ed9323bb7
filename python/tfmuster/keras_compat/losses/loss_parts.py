"""Make the parts of a loss that a model's own code computes add up to the loss of one process.

In a step, a worker has a part of the rows. What Keras's losses return is scaled to be a part of the loss
(:mod:`.loss_reduction`). A ``train_step`` or ``compute_loss`` of a user may also take the mean of some rows
itself, and such a mean must be multiplied by the worker's share of the rows. Which it is can be read off the
graph: a loss is a sum of terms, and each term is

- a part already, if it comes from one of Keras's losses, or from ``tf.nn.compute_average_loss``;
- a mean over rows, or something without rows, such as the norm of a weight: the shares add up to 1;
- a sum over rows: the workers' sums add up as they are.

Any other term, such as the root of a mean, is taken as a mean, and the run's notes say so. What layers give
to ``add_loss()`` is read in the same way.

The number of rows must be unknown when a step is traced, which tells what has rows. A step that can't be
traced so, because its Python code computes with that number, has means only.

With ``run_eagerly=True`` there is no graph. Other numbers are then taken to be sums of parts if the step has
computed one of Keras's losses, as in ``compute_loss`` of Keras, and else means.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from ...system.user_code import module_of
from .. import seams
from ..process import tell
from ..sums.gradients import as_summed
from .graph_rows import SAME, TENSORS, counts_rows, has_rows, is_of_all_rows, without_rows

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

    #: What a term is multiplied by.
    Factor: TypeAlias = tf.Tensor | float | None


class _Step(threading.local):
    """What is known of the loss of the step that this thread traces."""

    def __init__(self) -> None:
        #: The worker's share of the rows, a scalar float32; None outside of a step.
        self.share: Any = None
        #: The losses that the step has called, by their ids.
        self.called: dict[int, keras.losses.Loss] = {}
        #: Whether one of Keras's losses is computed in it.
        self.of_keras = False
        #: Whether a term was a function of means of rows.
        self.guessed = False
        self.additional = False
        self.only_building = False


_step = _Step()


class Term(NamedTuple):
    """A term of a loss, a scalar: ``factor * tensor``."""

    tensor: tf.Tensor
    #: It gets no gradient; None is 1.
    factor: Factor
    #: Whether the workers' values add up as they are.
    adds_up: bool
    #: False if the term is not a part of the loss's value, but of its gradient.
    has_value: bool = True


def begin(share: tf.Tensor | None, rows: Sequence[tf.Tensor] = ()) -> None:
    """Note the worker's rows in this step and its share of all, a scalar float32; None ends the step."""
    if share is not None:
        _step.called = {}
        _step.guessed = False
    _step.share, _step.of_keras, _step.additional = share, False, False
    TENSORS.begin(rows)


@contextlib.contextmanager
def only_building() -> Iterator[None]:
    """Inside the block, gradients are zeros: the weights have shapes, but no values yet."""
    _step.only_building = True
    try:
        yield
    finally:
        _step.only_building = False


@contextlib.contextmanager
def additional_loss() -> Iterator[None]:
    """Inside the block, Keras takes together what a layer has given to ``add_loss()``."""
    _step.additional = True
    try:
        yield
    finally:
        _step.additional = False


def is_additional() -> bool:
    """Return whether a number is what a layer has given to ``add_loss()``, and its graph is known."""
    import tensorflow as tf

    return _step.additional and not tf.executing_eagerly()


def note_call(loss: keras.losses.Loss) -> None:
    """Note that a step calls a loss."""
    _step.called[id(loss)] = loss


def called_losses() -> list[keras.losses.Loss]:
    """Return the losses that the step has called which was traced last."""
    return list(_step.called.values())


def has_guessed() -> bool:
    """Return whether a term was a function of means of rows, which the workers' mean does not equal."""
    return _step.guessed


def may_have_terms(model: keras.Model) -> bool:
    """Return whether code of the program may compute a term of the loss in a step of a model."""
    layers = seams.FLATTEN_LAYERS.of(model)()
    return has_own_loss(model) or any(not module_of(layer).startswith("keras.") for layer in layers)


def has_own_loss(model: keras.Model) -> bool:
    """Return whether a model's own code may compute a loss."""
    return _has_own(model, "train_step", "test_step", "compute_loss")


def has_own_step(model: keras.Model) -> bool:
    """Return whether a model's own code computes gradients."""
    return _has_own(model, "train_step")


def _has_own(model: keras.Model, *methods: str) -> bool:
    import keras

    return any(getattr(type(model), name) is not getattr(keras.Model, name) for name in methods)


def mark_part(tensor: tf.Tensor) -> tf.Tensor:
    """Note that the workers' values of a scalar of Keras add up to that of one process; return it."""
    if _step.share is not None and hasattr(tensor, "shape") and tensor.shape.rank == 0:
        TENSORS.parts[id(tensor)] = tensor
        _step.of_keras = True
    return tensor


def as_part(tensor: tf.Tensor) -> tf.Tensor:
    """Return a scalar of this step such that the workers' values add up to the value of one process."""
    import tensorflow as tf

    total = None
    for term in _terms(tensor):
        if term.has_value:
            value = term.tensor * _weight(term)
            total = value if total is None else total + tf.cast(value, total.dtype)
    TENSORS.parts[id(total)] = total
    return total


def _weight(term: Term) -> tf.Tensor:
    """Return by what a term is multiplied in this worker's part of the loss, of the term's type."""
    import tensorflow as tf

    kind = term.tensor.dtype
    weight = tf.ones_like(term.tensor) if term.factor is None else tf.cast(term.factor, kind)
    # A worker without rows has a placeholder row.
    share = tf.cast(_step.share > 0, kind) if term.adds_up else tf.cast(_step.share, kind)
    return weight * share


def patch_tapes() -> None:
    """Make ``GradientTape.gradient`` differentiate the worker's part of a loss in a step of ``fit``."""
    import tensorflow as tf

    stock = seams.GRADIENT.get()

    @seams.GRADIENT.wrap
    def gradient(
        self: Any,
        target: object,
        sources: object,
        output_gradients: object = None,
        *args: object,
        **kw: object,
    ) -> Any:
        if _step.only_building:
            return tf.nest.map_structure(_zeros, sources)
        if _step.share is None or output_gradients is not None or not _are_variables(sources):
            return stock(self, target, sources, output_gradients, *args, **kw)
        # The tape knows the terms, but not a new sum of them that is made after it was closed.
        terms = [term for number in tf.nest.flatten(target) for term in _terms_of_target(number)]
        if all(id(term.tensor) in TENSORS.parts and term.factor is None for term in terms):
            gradients = stock(self, target, sources, None, *args, **kw)
        else:
            weights = [*map(_weight, terms)]
            gradients = stock(self, [term.tensor for term in terms], sources, weights, *args, **kw)
        return as_summed(gradients)

    for seam in (seams.AVERAGE_LOSS, seams.SCALE_REGULARIZATION):
        stock_nn = seam.get()
        marked = functools.wraps(stock_nn)(lambda *a, _stock=stock_nn, **k: mark_part(_stock(*a, **k)))
        seam.replace_everywhere(marked)


def _zeros(source: tf.Tensor | tf.Variable | keras.Variable) -> tf.Tensor:
    import tensorflow as tf

    # A variable can't be read yet, and only the graph knows the shape of a tensor.
    return tf.zeros_like(source) if isinstance(source, tf.Tensor) else tf.zeros(source.shape, source.dtype)


def _are_variables(sources: object) -> bool:
    import keras
    import tensorflow as tf

    return all(isinstance(source, (tf.Variable, keras.Variable)) for source in tf.nest.flatten(sources))


def _terms_of_target(target: object) -> list[Term]:
    """Return the terms of what is differentiated. Of several numbers, the gradient is that of their sum."""
    import tensorflow as tf

    scalar = isinstance(target, tf.Tensor) and target.shape.rank == 0
    return _terms(target) if scalar else [Term(target, None, adds_up=True)]


def _terms(tensor: tf.Tensor, factor: Factor = None) -> list[Term]:
    """Return the terms of a scalar of the current step."""
    if id(tensor) in TENSORS.parts:
        return [Term(tensor, factor, adds_up=True)]
    if is_of_all_rows(tensor):
        return [Term(tensor, factor, adds_up=False)]
    if not hasattr(tensor, "graph"):  # computed eagerly, so nothing is known of it
        return [Term(tensor, factor, adds_up=_step.of_keras)]
    kind, inputs = tensor.op.type, list(tensor.op.inputs)
    if kind in (*SAME, "Sum", "Mean") and inputs[0].shape.rank == 0:
        return _terms(inputs[0], factor)
    if kind == "Sum" and inputs[0].op.type == "Pack" and inputs[0].shape.rank == 1:  # of a list of numbers
        return [term for number in inputs[0].op.inputs for term in _terms(number, factor)]
    of_scalars = all(number.shape.rank == 0 for number in inputs)
    if kind in ("AddV2", "Add", "AddN", "Sub") and of_scalars:
        last = times(factor, -1.0) if kind == "Sub" else factor
        return [*_terms(inputs[0], factor), *(term for number in inputs[1:] for term in _terms(number, last))]
    if kind == "Neg":
        return _terms(inputs[0], times(factor, -1.0))
    if kind in ("Mul", "RealDiv", "DivNoNan") and of_scalars:
        return _product(tensor, inputs, factor, divides=kind != "Mul")
    if kind == "StopGradient":
        return [Term(tensor, factor, adds_up=all(term.adds_up for term in _terms(inputs[0])))]
    if kind in ("Sum", "Mean") and (how := _over_rows(tensor)) is not None:
        return [Term(tensor, factor, adds_up=how == "Sum")]
    if not without_rows(tensor):
        _step.guessed = _step.guessed or of_scalars
        tell("loss", f"a term of the loss is neither a sum nor a mean of rows ({kind}); it counts as a mean")
    return [Term(tensor, factor, adds_up=False)]


def _product(tensor: tf.Tensor, inputs: list[tf.Tensor], factor: Factor, *, divides: bool) -> list[Term]:
    import tensorflow as tf

    left, right = inputs
    if counts_rows(right) and divides:  # a sum over rows by their number
        return [Term(tensor, factor, adds_up=False)]
    if without_rows(left) and without_rows(right):
        return [Term(tensor, factor, adds_up=False)]
    if without_rows(left) and not divides:
        left, right = right, left
    if not without_rows(right):
        _step.guessed = True
        tell("loss", "a term of the loss is a product of two numbers of the batch; it counts as a mean")
        return [Term(tensor, factor, adds_up=False)]
    terms = _terms(left, times(factor, 1 / right if divides else right))
    kinds = {term.adds_up for term in terms}
    if len(kinds) == 1:
        return [Term(tensor, factor, kinds.pop())]
    # The other factor may be computed from weights, and then has a gradient itself.
    slope = -as_part(left) / tf.square(right) if divides else as_part(left)
    return [*terms, Term(right, times(factor, slope), adds_up=True, has_value=False)]


def times(factor: Factor, other: tf.Tensor | float) -> Any:
    """Return the product of a factor and another one."""
    import tensorflow as tf

    return other if factor is None else factor * tf.cast(other, getattr(factor, "dtype", tf.float32))


def _over_rows(tensor: tf.Tensor) -> str | None:
    """Return the operation that has taken the rows together, ``"Sum"`` or ``"Mean"``, if it is known."""
    while tensor.op.type in ("Sum", "Mean"):
        whole = tensor.op.inputs[0]
        if has_rows(whole):
            return str(tensor.op.type)
        tensor = whole
    return None

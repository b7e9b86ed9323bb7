"""Make what layers keep of rows, such as counts, largest values and moving means, that of the whole batch.

A layer of the program may assign to a weight in each step what it has computed from the rows of one worker.
What that means is read off the graph, as the parts of a loss are (:mod:`.loss_parts`). A value is a sum of
terms:

- something without rows, such as the weight's old value: the same on all workers;
- a sum over rows, or their number: the workers' are added up;
- a mean over rows: the workers' shares of it are added up.

Or it is the larger, or smaller, of an extreme over rows and the old value. Then the workers' extreme is
taken. Of any other value, the mean of the workers' changes is taken, and the proof of the first step says
whether that is right.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from ..process import worker_of
from ..step_rows import place_of_rows, share_of_rows
from ..sums.collectives import narrowed, replica_sum, widened
from .graph_rows import SAME, counts_rows, has_rows, knows_rows, without_rows
from .loss_parts import times

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

    from .loss_parts import Factor

_step = threading.local()

#: Operations that give a sum of their results for a sum of inputs.
_LINEAR: Final = {*SAME, "ExpandDims", "Mean", "Slice", "StridedSlice", "Sum", "Tile", "Transpose"}
#: Operations that take the rows of their inputs together if their result has no rows.
_TOGETHER: Final = {"BatchMatMulV2", "DenseBincount", "Einsum", "MatMul", "Mean", "Sum", "UnsortedSegmentSum"}
_EXTREMES: Final = {"Max": "Maximum", "Min": "Minimum"}


@contextlib.contextmanager
def states_of_step(variables: Iterable[keras.Variable]) -> Iterator[set[int]]:
    """Inside the block, a step is traced that may assign to some weights.

    Yield the ids of those to which it has assigned values of the whole batch.
    """
    whole: set[int] = set()
    _step.states = {id(variable) for variable in variables}, whole
    try:
        yield whole
    finally:
        _step.states = None


def whole_state(variable: keras.Variable, value: tf.Tensor) -> tf.Tensor:
    """Return what a step assigns to a weight, for the whole batch if it is known what that is."""
    nothing: tuple[set[int], set[int]] = set(), set()
    states, whole = getattr(_step, "states", None) or nothing
    if id(variable) not in states or not knows_rows() or not hasattr(value, "graph"):
        return value
    found = _of_all(value)
    if found is None:
        whole.discard(id(variable))
        return value
    whole.add(id(variable))
    return found


def _of_all(value: tf.Tensor) -> tf.Tensor | None:
    import tensorflow as tf

    share, place = share_of_rows(), place_of_rows()
    assert place is not None
    present = place.rows > 0
    if (extreme := _extreme(value)) is not None:
        context = tf.distribute.get_replica_context()
        worker, workers = worker_of(context.strategy)
        # A worker without rows has read a placeholder row, of which it must know nothing.
        none = value.dtype.min if extreme == "Max" else value.dtype.max
        own = tf.where(present, value, tf.cast(none, value.dtype))
        around = [[worker, workers - 1 - worker], *([[0, 0]] * value.shape.rank)]
        of_workers = narrowed(replica_sum(tf.pad(widened(own)[tf.newaxis], around)), value.dtype)
        reduce = tf.reduce_max if extreme == "Max" else tf.reduce_min
        return reduce(of_workers, axis=0)  # type: ignore[no-any-return]
    terms = _terms(value)
    if terms is None:
        return None
    same, parts = tf.zeros_like(value), []
    for tensor, factor, kind in terms:
        weighed = tf.cast(tensor, value.dtype)
        if factor is not None:
            weighed = weighed * tf.cast(factor, value.dtype)
        if kind == "same":
            same += weighed
        else:
            weight = tf.cast(present, value.dtype) if kind == "sum" else tf.cast(share, value.dtype)
            parts.append(tf.broadcast_to(weighed * weight, tf.shape(value)))
    return same + narrowed(replica_sum(widened(tf.add_n(parts))), value.dtype) if parts else value


def _terms(value: tf.Tensor, factor: Factor = None) -> list[tuple[tf.Tensor, Any, str]] | None:
    """Return the terms of a value, each with what it is multiplied by and its kind; None if it has others."""
    if without_rows(value):
        return [(value, factor, "same")]
    kind, inputs = value.op.type, list(value.op.inputs)
    if _takes_rows_together(value):
        return [(value, factor, "mean" if kind == "Mean" else "sum")]
    if kind in ("AddV2", "Add", "AddN", "Sub"):
        last = times(factor, -1.0) if kind == "Sub" else factor
        parts = [_terms(inputs[0], factor), *(_terms(other, last) for other in inputs[1:])]
        return None if None in parts else [term for part in parts if part is not None for term in part]
    if kind == "Neg":
        return _terms(inputs[0], times(factor, -1.0))
    if kind == "Mul" and without_rows(inputs[0]):
        inputs.reverse()
    if kind in ("RealDiv", "DivNoNan") and counts_rows(inputs[1]):
        sums = _terms(inputs[0])
        return [(value, factor, "mean")] if sums and {term[-1] for term in sums} == {"sum"} else None
    if kind in ("Mul", "RealDiv", "DivNoNan") and without_rows(inputs[1]):
        return _terms(inputs[0], times(factor, inputs[1] if kind == "Mul" else 1 / inputs[1]))
    if kind in _LINEAR and (inner := _terms(inputs[0])) is not None:
        kinds = {of_term for *_, of_term in inner}
        return [(value, factor, kinds.pop())] if len(kinds) == 1 else None
    return [(value, factor, "sum")] if kind in ("Shape", "Size") and has_rows(inputs[0]) else None


def _extreme(value: tf.Tensor) -> str | None:
    """Return ``"Max"`` or ``"Min"`` if a value is the extreme of rows and of values without rows."""
    return next((name for name in _EXTREMES if not without_rows(value) and _is_extreme(value, name)), None)


def _is_extreme(value: tf.Tensor, name: str) -> bool:
    if without_rows(value):
        return True
    kind, inputs = value.op.type, list(value.op.inputs)
    if kind == name and not _unknown(value):
        return has_rows(inputs[0]) or _is_extreme(inputs[0], name)
    return (kind in SAME or kind == _EXTREMES[name]) and all(_is_extreme(one, name) for one in inputs[:2])


def _takes_rows_together(value: tf.Tensor) -> bool:
    """Return whether an operation adds up, or averages, something for each row, and not for pairs of rows."""
    kind, inputs = value.op.type, list(value.op.inputs)
    if kind not in _TOGETHER or _unknown(value):
        return False
    unknown = [list(one.shape).count(None) for one in inputs if one.shape.rank]
    if kind == "Einsum":
        terms = value.op.get_attr("equation").decode().partition("->")[0].split(",")
        labels = [
            label
            for one, term in zip(inputs, terms, strict=True)
            for label, size in zip(term, one.shape, strict=False)
            if size is None
        ]
        return len(set(labels)) == 1
    return max(unknown, default=0) == 1


def _unknown(value: tf.Tensor) -> bool:
    """Return whether a size of a tensor is unknown, as the number of rows is."""
    return value.shape.rank is None or None in list(value.shape)

"""Read off the graph of a step which tensors have rows of the batch, and what is computed from them.

Nothing but the number of rows is unknown when a step is traced, so what has an unknown first axis has rows.
"""

from __future__ import annotations

import threading
from collections.abc import Container, Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import tensorflow as tf

#: Operations that give out what they get in, up to its type and shape.
SAME = frozenset({"Identity", "Cast", "Reshape", "Squeeze", "EnsureShape", "CheckNumerics"})


class StepTensors(threading.local):
    """What is known of tensors of the step that this thread traces, by their ids."""

    def __init__(self) -> None:
        self.begin(())

    def begin(self, rows: Sequence[tf.Tensor]) -> None:
        """Forget the last step, and note this worker's rows of the batch."""
        # The tensors are kept, so that no other one gets their ids.
        self.rows: dict[int, tf.Tensor] = {id(tensor): tensor for tensor in rows}
        #: Those that have the rows of all workers.
        self.of_all: dict[int, tf.Tensor] = {}
        #: Scalars of which the workers' values add up to that of one process.
        self.parts: dict[int, tf.Tensor] = {}


TENSORS = StepTensors()


def knows_rows() -> bool:
    """Return whether the number of rows is unknown while the step is traced, which tells what has rows."""
    return any(has_rows(rows) for rows in TENSORS.rows.values())


def mark_all_rows(tensor: tf.Tensor) -> None:
    """Note that a tensor has the rows of all workers."""
    TENSORS.of_all[id(tensor)] = tensor


def is_of_all_rows(tensors: object) -> bool:
    """Return whether tensors of the step are computed from rows of all workers, and not from this worker's.

    What each worker computes from them is that of one process, of which a part is the worker's share.
    """
    import tensorflow as tf

    if not TENSORS.of_all:
        return False
    sources = {
        id(ancestor)
        for tensor in tf.nest.flatten(tensors, expand_composites=True)
        if hasattr(tensor, "graph")
        for ancestor in _ancestors(tensor)
    }
    # A part of a loss has its share already.
    others = TENSORS.rows.keys() | TENSORS.parts.keys()
    return not sources.isdisjoint(TENSORS.of_all) and sources.isdisjoint(others)


#: Operations whose results are sizes.
_SIZES = frozenset({"Shape", "Size"})


def _ancestors(tensor: tf.Tensor, *, until: Container[str] = ()) -> Iterator[Any]:
    """Yield a tensor of a graph and all from which it is computed there, not beyond some operations."""
    seen, waiting = set(), [tensor]
    while waiting:
        ancestor = waiting.pop()
        if id(ancestor) not in seen:
            seen.add(id(ancestor))
            yield ancestor
            known = ancestor.op.type in until or id(ancestor) in TENSORS.of_all
            if not known and not _is_size_of_a_row(ancestor):
                waiting += ancestor.op.inputs


def without_rows(tensor: tf.Tensor) -> bool:
    """Return whether a scalar is computed from weights and constants alone."""
    if not hasattr(tensor, "graph"):
        return True
    # Nothing but the number of rows is unknown when a step is traced.
    return all(
        source.shape.rank is not None and None not in list(source.shape) and id(source) not in TENSORS.parts
        for source in _ancestors(tensor)
    )


def is_of_the_batch(tensor: tf.Tensor) -> bool:
    """Return whether a tensor is computed from the batch of the step, or may be."""
    if not TENSORS.rows or not hasattr(tensor, "graph"):
        return True
    # What is not of this graph comes in by a placeholder.
    return any(
        id(ancestor) in TENSORS.rows or ancestor.op.type == "Placeholder" for ancestor in _ancestors(tensor)
    )


def counts_rows(tensor: tf.Tensor) -> bool:
    """Return whether a scalar is the size of something with rows."""
    if not hasattr(tensor, "graph"):
        return False
    operations = [ancestor.op for ancestor in _ancestors(tensor, until=_SIZES)]
    return {operation.type for operation in operations}.isdisjoint(("Sum", "Mean")) and any(
        operation.type in _SIZES and has_rows(operation.inputs[0]) for operation in operations
    )


def has_rows(tensor: tf.Tensor) -> bool:
    """Return whether the size of a tensor's first axis is unknown when a step is traced."""
    return tensor.shape.rank is None or tensor.shape[:1] == [None]


def _is_size_of_a_row(tensor: tf.Tensor) -> bool:
    """Return whether a tensor is taken from the sizes of another, without its number of rows."""
    import tensorflow as tf

    if tensor.op.type != "StridedSlice" or tensor.op.inputs[0].op.type != "Shape":
        return False
    begin = tf.get_static_value(tensor.op.inputs[1])
    axes = tensor.op.inputs[0].shape[0]
    # A mask means that the slice begins with the first axis.
    if begin is None or tensor.op.get_attr("begin_mask") or (begin[0] < 0 and axes is None):
        return False
    return bool(begin[0] % axes if begin[0] < 0 else begin[0])

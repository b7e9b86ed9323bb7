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
        #: Of how many batches tensors consist; see :func:`blocks_of`.
        self.blocks: dict[int, int] = {}
        #: Gradients that are sums over the workers where a tape has computed them.
        self.summed: dict[int, tf.Tensor] = {}


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


def mark_summed(gradients: object) -> None:
    """Note that gradients, dense or sparse ones in a structure, are sums over the workers."""
    import tensorflow as tf

    for tensor in tf.nest.flatten(gradients, expand_composites=True):
        if tensor is not None:
            TENSORS.summed[id(tensor)] = tensor
            mark_all_rows(tensor)


def is_of_sums(gradient: tf.Tensor | tf.IndexedSlices) -> bool:
    """Return whether a gradient is computed from those that are sums over the workers."""
    import tensorflow as tf

    tensors = tf.nest.flatten(gradient, expand_composites=True)
    if not TENSORS.summed or not all(hasattr(tensor, "graph") for tensor in tensors):
        return False
    sources = {id(ancestor) for tensor in tensors for ancestor in _ancestors(tensor)}
    others = TENSORS.rows.keys() | TENSORS.parts.keys() | (TENSORS.of_all.keys() - TENSORS.summed.keys())
    return not sources.isdisjoint(TENSORS.summed) and sources.isdisjoint(others)


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


def blocks_of(tensor: tf.Tensor) -> int:
    """Return of how many batches, one after the other, a tensor of the step consists.

    That of a GAN's discriminator is often ``tf.concat([generated, real], axis=0)``.
    """
    if not hasattr(tensor, "graph"):
        return 1
    known, waiting = TENSORS.blocks, [tensor]
    while waiting:
        latest = waiting[-1]
        sources = _sources_of_rows(latest)
        missing = [source for source in sources if id(source) not in known]
        if missing and id(latest) not in known:
            known[id(latest)] = 1  # in a loop
            waiting += missing
            continue
        waiting.pop()
        of_sources = [known[id(source)] for source in sources]
        if latest.op.type == "ConcatV2" and _axis(latest) == 0:
            known[id(latest)] = sum(of_sources)
        else:
            known[id(latest)] = max(of_sources, default=1)
    return known[id(tensor)]


def source_of_shape(shape: tf.Tensor) -> tf.Tensor | None:
    """Return the tensor of which a shape has the number of rows; None if it can't be read off the graph."""
    while hasattr(shape, "graph"):
        kind, inputs = shape.op.type, shape.op.inputs
        if kind == "Shape":
            return inputs[0]
        if kind not in ("Pack", "StridedSlice", "Cast", "Identity", "ConcatV2"):
            return None
        shape = inputs[0]
    return None


#: Operations whose result has other rows than their argument.
_OTHER_ROWS = frozenset({"GatherV2", "GatherNd", "Split", "SplitV", "Slice", "Unpack", *_SIZES})


def _sources_of_rows(tensor: tf.Tensor) -> list[tf.Tensor]:
    """Return the tensors from which the rows of a tensor come, in their order."""
    cuts_rows = tensor.op.type == "StridedSlice" and not tensor.op.get_attr("end_mask") & 1
    if tensor.op.type in _OTHER_ROWS or cuts_rows or not has_rows(tensor):
        return []
    return [source for source in tensor.op.inputs if has_rows(source)]


def _axis(tensor: tf.Tensor) -> int | None:
    """Return along which axis tensors have been concatenated, if it is known."""
    import tensorflow as tf

    axis = tf.get_static_value(tensor.op.inputs[-1])
    return None if axis is None else int(axis) % (tensor.shape.rank or 1)

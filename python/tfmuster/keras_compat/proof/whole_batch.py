"""Give every worker the rows of all: the global batch of one process, in the order of the workers."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from ..process import worker_of
from ..rows import LocalBatch, Tensors, parts_with_rows
from ..sums.collectives import gather_rows


def whole_batch(part: LocalBatch, spec: Tensors, strategy: tf.distribute.Strategy) -> tuple[Tensors, Tensors]:
    """Return the global batch of which a worker has a part, and the types with which to trace its step.

    All workers must call it. ``spec`` is the type of the part's data: it says what has rows, and whether
    their number is known when a step is traced. What has no rows, each worker has whole.
    """
    specs = tf.nest.flatten(spec)
    of_rows = {id(one) for one in parts_with_rows(part, spec)}
    present = int(part.rows) > 0
    tensors: list[Any] = []
    types: list[Any] = []
    for tensor, of_part in zip(tf.nest.flatten(part.data), specs, strict=True):
        if id(of_part) not in of_rows:
            tensors.append(tensor)
            types.append(of_part)
            continue
        # A worker without rows has read a placeholder row.
        whole = _gathered(tensor, strategy, present)
        tensors.append(whole)
        types.append(_type_of(whole, of_part))
    return tf.nest.pack_sequence_as(spec, tensors), tf.nest.pack_sequence_as(spec, types)


def _type_of(whole: Any, of_part: tf.TypeSpec) -> tf.TypeSpec:
    """Return the type of a whole tensor; its number of rows is known if that of the part is."""
    if not isinstance(of_part, tf.TensorSpec):
        return of_part
    known = of_part.shape.rank is not None and of_part.shape[0] is not None
    return tf.TensorSpec([whole.shape[0], *of_part.shape[1:]], of_part.dtype) if known else of_part


def _gathered(tensor: Any, strategy: tf.distribute.Strategy, present: bool) -> Any:
    """Return the rows of all workers; ``present`` says whether those of this one count."""
    if isinstance(tensor, tf.SparseTensor):
        return _gathered_sparse(tensor, strategy, present)
    own = tensor if present else tensor[:0]
    if isinstance(tensor, tf.RaggedTensor):
        lengths = gather_rows(strategy, own.nested_row_lengths())
        return tf.RaggedTensor.from_nested_row_lengths(_gathered(own.flat_values, strategy, True), lengths)
    return _gathered_texts(own, strategy) if own.dtype == tf.string else gather_rows(strategy, [own])[0]


def _gathered_sparse(tensor: tf.SparseTensor, strategy: tf.distribute.Strategy, present: bool) -> Any:
    """Return the rows of all workers; the places of this one's count from its first row on."""
    (counts,) = gather_rows(strategy, [tensor.dense_shape[:1] * int(present)])
    first = tf.reduce_sum(counts[: worker_of(strategy)[0]])
    own = tensor.indices + tf.pad([first], [[0, tensor.shape.rank - 1]])
    values = tensor.values
    if not present:
        own, values = own[:0], values[:0]
    places, numbers = _gathered(own, strategy, True), _gathered(values, strategy, True)
    shape = tf.concat([tf.reduce_sum(counts, keepdims=True), tensor.dense_shape[1:]], axis=0)
    return tf.SparseTensor(places, numbers, shape)


def _gathered_texts(own: tf.Tensor, strategy: tf.distribute.Strategy) -> tf.Tensor:
    """Return the texts of all workers, which travel as their bytes."""
    texts = own.numpy().reshape(-1)
    sizes = np.array([len(text) for text in texts], np.int64)
    content = np.frombuffer(b"".join(texts), np.uint8)
    all_sizes, everything = gather_rows(strategy, [tf.constant(sizes), tf.constant(content)])
    ends = np.cumsum(all_sizes.numpy())
    joined = everything.numpy().tobytes()
    parts = [joined[end - size : end] for end, size in zip(ends, all_sizes.numpy(), strict=True)]
    return tf.reshape(tf.constant(parts, tf.string), [-1, *own.shape[1:]])

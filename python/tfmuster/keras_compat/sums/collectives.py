"""Sum and gather tensors of all workers: directly between CPUs, otherwise by TensorFlow's collectives.

A direct gather is a sum: each worker has zeros in place of the others' rows. All values are added as integers
of their own bits, which changes none of them.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from ...collectives import current_group
from ...system.limits import usable_cores
from .. import seams
from ..agreement.waiting import inside_collective
from ..process import multi_worker, worker_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import tensorflow as tf

    from ...collectives import Group

_TYPES: Final = ("float32", "float64", "int32", "int64")

#: Bytes of gradients that are sent together, while backpropagation continues. Within a machine all are summed
#: at the end: there the sum needs the processor that backpropagation needs.
_BUCKET: Final = 4 * 1024 * 1024

#: Bytes of one of TensorFlow's collectives between CPUs. It copies each several times, and smaller ones at
#: the same time (docs/performance.md).
_PACK: Final = 4 * 1024 * 1024


def sums_directly(communication: str) -> bool:
    """Return whether the workers need connections to each other for this communication."""
    return communication in ("auto", "tcp")


def group_of(strategy: tf.distribute.Strategy) -> Group | None:
    """Return the group that sums for a strategy; None if TensorFlow does.

    The group is for workers with one CPU device each. NCCL is faster between GPUs.
    """
    group = current_group()
    if group is None or not multi_worker(strategy) or not _on_one_cpu(strategy):
        return None
    return group if worker_of(strategy) == (group.rank, len(group.names)) else None


def _on_one_cpu(strategy: tf.distribute.Strategy) -> bool:
    devices = strategy.extended.worker_devices
    return len(devices) == 1 and "CPU" in devices[0]


def can_sum(tensor: tf.Tensor) -> bool:
    """Return whether :func:`sum_directly` takes this tensor: it is dense, and of a type that groups add."""
    import tensorflow as tf

    return isinstance(tensor, tf.Tensor) and tensor.dtype.name in _TYPES


def widened(tensor: tf.Tensor) -> tf.Tensor:
    """Return a tensor with the same values, or the same bits, in a type that gathers and sums know."""
    import tensorflow as tf

    unsigned = {tf.uint32: tf.int32, tf.uint64: tf.int64}
    if tensor.dtype in unsigned:
        return tf.bitcast(tensor, unsigned[tensor.dtype])
    wider = dict.fromkeys((tf.bfloat16, tf.float16), tf.float32)
    wider |= dict.fromkeys((tf.bool, tf.int8, tf.uint8, tf.int16, tf.uint16), tf.int32)
    return tf.cast(tensor, wider.get(tensor.dtype, tensor.dtype))


def narrowed(tensor: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Return what `widened` has been given, a tensor of this type."""
    import tensorflow as tf

    return tf.bitcast(tensor, dtype) if dtype in (tf.uint32, tf.uint64) else tf.cast(tensor, dtype)


def sum_directly(
    strategy: tf.distribute.Strategy, tensors: Sequence[tf.Tensor], wire: str | None = None
) -> list[tf.Tensor]:
    """Return the sums over the workers of tensors, by one operation for each type and bucket.

    Workers of several machines sum buckets, the last tensors first: backpropagation makes the last layers'
    gradients first, and computes the others meanwhile. All workers make the same buckets in the same order,
    and the bits of a sum depend neither on time nor on who is slow. :func:`can_sum` must accept the tensors.
    Floats are sent as the type ``wire``, "bfloat16" or "float16".
    """
    group = group_of(strategy)
    assert group is not None
    sums: dict[int, tf.Tensor] = {}
    bucket = math.inf if group.one_machine else _BUCKET
    for type in _TYPES:
        of_type = [i for i, tensor in enumerate(tensors) if tensor.dtype.name == type]
        narrow = wire if type == "float32" else None
        for places in _buckets(of_type, tensors, bucket):
            with inside_collective(), _in_order(strategy) as done:
                done.extend(group.sum_tensors([tensors[i] for i in places], wire=narrow))
            sums.update(zip(places, done, strict=True))
    return [sums[i] for i in range(len(tensors))]


def _buckets(places: list[int], tensors: Sequence[tf.Tensor], least: float) -> Iterator[list[int]]:
    """Cut places of tensors into buckets of at least `least` bytes, last first. Unknown sizes are 0."""
    bucket: list[int] = []
    size = 0
    for place in reversed(places):
        bucket.append(place)
        size += (tensors[place].shape.num_elements() or 0) * tensors[place].dtype.size
        if size >= least:
            yield bucket
            bucket, size = [], 0
    if bucket:
        yield bucket


@contextlib.contextmanager
def _in_order(strategy: tf.distribute.Strategy) -> Iterator[list[tf.Tensor]]:
    """Run the sum in the block in its place among TensorFlow's collectives in the program.

    A sum occupies a thread of TensorFlow while it waits for other workers. If they ran sums and collectives
    in different orders, each could wait for what another one has not begun. TensorFlow orders its
    collectives by a variable that all of them use, so it is used before and after the sum, too.
    """
    import tensorflow as tf

    done: list[tf.Tensor] = []
    if tf.executing_eagerly():
        yield done
        return
    extended = strategy.extended
    operations = (seams.CROSS_DEVICE_OPS.of(extended), seams.HOST_CROSS_DEVICE_OPS.of(extended))
    launchers = [launcher for operation in operations for launcher in seams.LAUNCHERS.of(operation)]
    tokens = [token for launcher in launchers if (token := seams.TOKEN.of(launcher)) is not None]
    with tf.control_dependencies([token.assign_add(0.0, read_value=False) for token in tokens]):
        yield done
    with tf.control_dependencies(done):
        for token in tokens:
            token.assign_add(0.0, read_value=False)


def sum_of_workers(strategy: tf.distribute.Strategy, value: tf.Tensor | npt.NDArray[np.generic]) -> tf.Tensor:
    """Return the sum of each worker's value, of one shape and type, outside of their steps."""
    import tensorflow as tf

    tensor = tf.convert_to_tensor(value)
    if can_sum(tensor) and group_of(strategy) is not None:
        return sum_directly(strategy, [tensor])[0]
    return strategy.reduce("SUM", tensor, axis=None)


def prepare_sums(communication: str) -> None:
    """Prepare TensorFlow and the group of this process, if there is one, for sums.

    TensorFlow gets one more thread for operations, because a sum that waits occupies one, unless the program
    or ``TF_NUM_INTEROP_THREADS`` sets a number. Call it before TensorFlow starts.
    """
    import tensorflow as tf

    if (group := current_group()) is None:
        return
    group.share = communication != "tcp"
    if os.environ.get("TF_NUM_INTEROP_THREADS"):
        return
    if tf.config.threading.get_inter_op_parallelism_threads() == 0:
        tf.config.threading.set_inter_op_parallelism_threads(usable_cores() + 1)


def replica_sum(tensor: tf.Tensor) -> tf.Tensor:
    """Return the sum of a tensor over the workers. Call it in a replica context."""
    import tensorflow as tf

    context = tf.distribute.get_replica_context()
    if can_sum(tensor) and group_of(context.strategy) is not None:
        return sum_directly(context.strategy, [tensor])[0]
    return sum_by_tensorflow([tensor])[0]


def sum_by_tensorflow(tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Return the sums by TensorFlow's collectives, in pieces between CPUs. Call it in a replica context."""
    import tensorflow as tf

    context = tf.distribute.get_replica_context()
    if tf.executing_eagerly() or not _on_one_cpu(context.strategy):
        return list(context.all_reduce(tf.distribute.ReduceOp.SUM, list(tensors)))
    pieces: list[list[tf.Tensor]] = []
    for tensor in tensors:
        size, most = tensor.shape.num_elements() or 0, _PACK // tensor.dtype.size
        sizes = [min(most, size - start) for start in range(0, size, most)]
        pieces.append(tf.split(tf.reshape(tensor, [-1]), sizes) if len(sizes) > 1 else [tensor])
    options = tf.distribute.experimental.CommunicationOptions(bytes_per_pack=_PACK)
    sums = iter(context.all_reduce(tf.distribute.ReduceOp.SUM, [*itertools.chain(*pieces)], options))
    summed = [[next(sums) for _ in of_tensor] for of_tensor in pieces]
    return [
        parts[0] if len(parts) == 1 else tf.reshape(tf.concat(parts, axis=0), tensor.shape)
        for parts, tensor in zip(summed, tensors, strict=True)
    ]


def gather_rows(strategy: tf.distribute.Strategy, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Return for each tensor the rows of all workers, in the order of the workers.

    The tensors are numbers or booleans of a known rank, at least 1. Only the number of rows may differ
    between workers. Without a group (`group_of`), call it in the cross-replica context.
    """
    wide = [widened(tensor) for tensor in tensors]
    if group_of(strategy) is None:
        gathered = [strategy.gather(tensor, axis=0) for tensor in wide]
    else:
        gathered = _gather_directly(strategy, wide)
    return [narrowed(rows, tensor.dtype) for rows, tensor in zip(gathered, tensors, strict=True)]


def _gather_directly(strategy: tf.distribute.Strategy, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    import tensorflow as tf

    worker, workers = worker_of(strategy)
    words = [tf.bitcast(tensor, tf.int32 if tensor.dtype.size == 4 else tf.int64) for tensor in tensors]
    own = tf.stack([tf.shape(rows, tf.int64)[0] for rows in words])
    (counts,) = sum_directly(strategy, [tf.pad(own[None], [[worker, workers - 1 - worker], [0, 0]])])
    before, after = tf.reduce_sum(counts[:worker], axis=0), tf.reduce_sum(counts[worker + 1 :], axis=0)
    padded = [
        tf.pad(rows, tf.pad([[before[i], after[i]]], [[0, rows.shape.rank - 1], [0, 0]]))
        for i, rows in enumerate(words)
    ]
    return [
        tf.ensure_shape(tf.bitcast(total, tensor.dtype), [None, *tensor.shape[1:]])
        for total, tensor in zip(sum_directly(strategy, padded), tensors, strict=True)
    ]


def pack(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    """Concatenate the values of all tensors as one float32 vector."""
    import tensorflow as tf

    return tf.concat([tf.reshape(tf.cast(t, tf.float32), [-1]) for t in tensors], axis=0)


def unpack(packed: tf.Tensor, like: list[tf.Tensor]) -> list[tf.Tensor]:
    """Split a packed vector into tensors with the shapes and types of ``like``."""
    import tensorflow as tf

    pieces = tf.split(packed, [tf.size(t) for t in like])
    return [tf.cast(tf.reshape(piece, tf.shape(t)), t.dtype) for piece, t in zip(pieces, like, strict=True)]

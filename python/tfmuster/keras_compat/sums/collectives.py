"""Sum and gather tensors of all workers: directly between CPUs, otherwise by TensorFlow's collectives.

A direct gather is a sum: each worker has zeros in place of the others' rows. All values are added as integers
of their own bits, which changes none of them.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from ...collectives import current_group
from ...environment import COMMUNICATION_VARIABLE
from ...errors import StrategyError
from ...system.cores import usable_cores
from ...words import Value, Words
from .. import seams
from ..agreement.waiting import inside_collective
from ..process import multi_worker, worker_of

if TYPE_CHECKING:
    from ...collectives import Group

COMMUNICATIONS: Final = ("auto", "tcp", "tensorflow", "ring", "nccl")
_TYPES: Final = ("float32", "float64", "int32", "int64")

#: Bytes of gradients that are sent together, while backpropagation continues. Within a machine all are summed
#: at the end: there the sum needs the processor that backpropagation needs.
_BUCKET: Final = 4 * 1024 * 1024

#: Bytes of one of TensorFlow's collectives between CPUs. It copies each several times, and smaller ones at
#: the same time (docs/performance.md).
_PACK: Final = 4 * 1024 * 1024


def checked_communication(communication: str) -> str:
    """Return how the workers of a strategy communicate: the argument, or by default the environment's value.

    Raises
    ------
    StrategyError
        The value is not in `COMMUNICATIONS` (reason ``communication``).
    """
    found, where = communication, ""
    if communication == "auto":
        found, where = os.environ.get(COMMUNICATION_VARIABLE) or "auto", f" in {COMMUNICATION_VARIABLE}"
    if found not in COMMUNICATIONS:
        raise StrategyError(
            f"communication must be one of {', '.join(COMMUNICATIONS)}.",
            found=Words("{}{}", Value(found), where),
            strategy="multi_worker_mirrored",
            reason="communication",
        )
    return found


def sums_directly(communication: str) -> bool:
    """Return whether the workers need connections to each other for this communication."""
    return communication in ("auto", "tcp")


def group_of(strategy: Any) -> Group | None:
    """Return the group that sums for a strategy; None if TensorFlow does.

    The group is for workers with one CPU device each. NCCL is faster between GPUs.
    """
    group = current_group()
    if group is None or not multi_worker(strategy) or not _on_one_cpu(strategy):
        return None
    return group if worker_of(strategy) == (group.rank, len(group.names)) else None


def _on_one_cpu(strategy: Any) -> bool:
    devices = strategy.extended.worker_devices
    return len(devices) == 1 and "CPU" in devices[0]


def can_sum(tensor: Any) -> bool:
    """Return whether :func:`sum_directly` takes this tensor: it is dense, and of a type that groups add."""
    import tensorflow as tf

    return isinstance(tensor, tf.Tensor) and tensor.dtype.name in _TYPES


def widened(tensor: Any) -> Any:
    """Return a tensor with the same values, or the same bits, in a type that gathers and sums know."""
    import tensorflow as tf

    unsigned = {tf.uint32: tf.int32, tf.uint64: tf.int64}
    if tensor.dtype in unsigned:
        return tf.bitcast(tensor, unsigned[tensor.dtype])
    wider = dict.fromkeys((tf.bfloat16, tf.float16), tf.float32)
    wider |= dict.fromkeys((tf.bool, tf.int8, tf.uint8, tf.int16, tf.uint16), tf.int32)
    return tf.cast(tensor, wider.get(tensor.dtype, tensor.dtype))


def narrowed(tensor: Any, dtype: Any) -> Any:
    """Return what `widened` has been given, a tensor of this type."""
    import tensorflow as tf

    return tf.bitcast(tensor, dtype) if dtype in (tf.uint32, tf.uint64) else tf.cast(tensor, dtype)


def sum_directly(strategy: Any, tensors: Sequence[Any], wire: str | None = None) -> list[Any]:
    """Return the sums over the workers of tensors, by one operation for each type and bucket.

    Workers of several machines sum buckets, the last tensors first: backpropagation makes the gradients of
    the last layers first, and computes the others meanwhile. All workers make the same buckets in the same
    order, and the bits of a sum depend neither on time nor on who is slow.

    Parameters
    ----------
    strategy : tf.distribute.Strategy
        With a group (:func:`group_of`).
    tensors : sequence of tf.Tensor
        :func:`can_sum` accepts them.
    wire : {"bfloat16", "float16"}, optional
        Send floats as this type.
    """
    group = group_of(strategy)
    assert group is not None
    sums: dict[int, Any] = {}
    bucket = math.inf if group.one_machine else _BUCKET
    for type in _TYPES:
        of_type = [i for i, tensor in enumerate(tensors) if tensor.dtype.name == type]
        narrow = wire if type == "float32" else None
        for places in _buckets(of_type, tensors, bucket):
            with inside_collective(), _in_order(strategy) as done:
                found = group.sum_tensors([tensors[i] for i in places], wire=narrow)
                done.extend(found)
            sums.update(zip(places, found, strict=True))
    return [sums[i] for i in range(len(tensors))]


def _buckets(places: list[int], tensors: Sequence[Any], least: float) -> Iterator[list[int]]:
    """Cut places of tensors into buckets of at least `least` bytes, the last tensors first.

    A size that is not known counts as none.
    """
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
def _in_order(strategy: Any) -> Iterator[list[Any]]:
    """Run the sum in the block in its place among TensorFlow's collectives in the program.

    A sum occupies a thread of TensorFlow while it waits for other workers. If they ran sums and collectives
    in different orders, each could wait for what another one has not begun. TensorFlow orders its
    collectives by a variable that all of them use, so it is used before and after the sum, too.
    """
    import tensorflow as tf

    done: list[Any] = []
    if tf.executing_eagerly():
        yield done
        return
    extended = strategy.extended
    operations = (seams.CROSS_DEVICE_OPS.of(extended), seams.HOST_CROSS_DEVICE_OPS.of(extended))
    launchers = [launcher for each in operations for launcher in seams.LAUNCHERS.of(each)]
    tokens = [token for launcher in launchers if (token := seams.TOKEN.of(launcher)) is not None]
    with tf.control_dependencies([token.assign_add(0.0, read_value=False) for token in tokens]):
        yield done
    with tf.control_dependencies(done):
        for token in tokens:
            token.assign_add(0.0, read_value=False)


def sum_of_workers(strategy: Any, value: Any) -> Any:
    """Return the sum of each worker's value, outside of its steps.

    Parameters
    ----------
    strategy : tf.distribute.Strategy
        One with several workers.
    value : tf.Tensor or numpy.ndarray
        Of the same shape and type on all of them.
    """
    import tensorflow as tf

    tensor = tf.convert_to_tensor(value)
    if can_sum(tensor) and group_of(strategy) is not None:
        return sum_directly(strategy, [tensor])[0]
    return strategy.reduce("SUM", tensor, axis=None)


def prepare_sums(communication: str) -> None:
    """Prepare TensorFlow and the group of this process, if there is one, for sums.

    TensorFlow gets one more thread for operations, because a sum that waits occupies one. Call the function
    before TensorFlow starts. It changes no number that the program or the variable
    ``TF_NUM_INTEROP_THREADS`` has set.
    """
    import tensorflow as tf

    if (group := current_group()) is None:
        return
    group.share = communication != "tcp"
    if os.environ.get("TF_NUM_INTEROP_THREADS"):
        return
    if tf.config.threading.get_inter_op_parallelism_threads() == 0:
        tf.config.threading.set_inter_op_parallelism_threads(usable_cores() + 1)


def replica_sum(tensor: Any) -> Any:
    """Return the sum of a tensor over the workers. Call it in a replica context."""
    import tensorflow as tf

    context = tf.distribute.get_replica_context()
    if can_sum(tensor) and group_of(context.strategy) is not None:
        return sum_directly(context.strategy, [tensor])[0]
    return sum_by_tensorflow([tensor])[0]


def sum_by_tensorflow(tensors: Sequence[Any]) -> list[Any]:
    """Return the sums over the workers of dense tensors, by TensorFlow's collectives, in pieces between CPUs.

    Call it in a replica context.
    """
    import tensorflow as tf

    context = tf.distribute.get_replica_context()
    if tf.executing_eagerly() or not _on_one_cpu(context.strategy):
        return list(context.all_reduce(tf.distribute.ReduceOp.SUM, list(tensors)))
    pieces: list[Any] = []
    counts = []
    for tensor in tensors:
        size, most = tensor.shape.num_elements() or 0, _PACK // tensor.dtype.size
        sizes = [min(most, size - start) for start in range(0, size, most)]
        found = tf.split(tf.reshape(tensor, [-1]), sizes) if len(sizes) > 1 else [tensor]
        pieces += found
        counts.append(len(found))
    options = tf.distribute.experimental.CommunicationOptions(bytes_per_pack=_PACK)
    sums = iter(context.all_reduce(tf.distribute.ReduceOp.SUM, pieces, options))
    found = [[next(sums) for _ in range(count)] for count in counts]
    return [
        parts[0] if len(parts) == 1 else tf.reshape(tf.concat(parts, axis=0), tensor.shape)
        for parts, tensor in zip(found, tensors, strict=True)
    ]


def gather_rows(strategy: Any, tensors: Sequence[Any]) -> list[Any]:
    """Return for each tensor the rows of all workers, in the order of the workers.

    Parameters
    ----------
    strategy : tf.distribute.Strategy
        One with several workers. Without a group (`group_of`), call it in the cross-replica context.
    tensors : sequence of tf.Tensor
        Numbers or booleans of a known rank, at least 1. Only the number of rows may differ between workers.
    """
    wide = [widened(tensor) for tensor in tensors]
    if group_of(strategy) is None:
        gathered = [strategy.gather(tensor, axis=0) for tensor in wide]
    else:
        gathered = _gather_directly(strategy, wide)
    return [narrowed(rows, tensor.dtype) for rows, tensor in zip(gathered, tensors, strict=True)]


def _gather_directly(strategy: Any, tensors: list[Any]) -> list[Any]:
    import tensorflow as tf

    worker, workers = worker_of(strategy)
    words = [tf.bitcast(each, tf.int32 if each.dtype.size == 4 else tf.int64) for each in tensors]
    own = tf.stack([tf.shape(each, tf.int64)[0] for each in words])
    (rows,) = sum_directly(strategy, [tf.pad(own[None], [[worker, workers - 1 - worker], [0, 0]])])
    before, after = tf.reduce_sum(rows[:worker], axis=0), tf.reduce_sum(rows[worker + 1 :], axis=0)
    padded = [
        tf.pad(each, tf.pad([[before[i], after[i]]], [[0, each.shape.rank - 1], [0, 0]]))
        for i, each in enumerate(words)
    ]
    found = []
    for total, tensor in zip(sum_directly(strategy, padded), tensors, strict=True):
        gathered = tf.bitcast(total, tensor.dtype)
        found.append(tf.ensure_shape(gathered, [None, *tensor.shape[1:]]))
    return found


def pack(tensors: list[Any]) -> Any:
    """Concatenate the values of all tensors as one float32 vector."""
    import tensorflow as tf

    return tf.concat([tf.reshape(tf.cast(t, tf.float32), [-1]) for t in tensors], axis=0)


def unpack(packed: Any, like: list[Any]) -> list[Any]:
    """Split a packed vector into tensors with the shapes and types of ``like``."""
    import tensorflow as tf

    parts = tf.split(packed, [tf.size(t) for t in like])
    return [tf.cast(tf.reshape(part, tf.shape(t)), t.dtype) for part, t in zip(parts, like, strict=True)]

"""Sum gradients over the workers, by request as 16-bit floats.

The 16-bit types halve the bytes of each step's all-reduce. They are off by default.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from .. import seams
from ..choices import GRADIENT_DTYPE
from ..losses.graph_rows import SAME, is_of_sums, is_of_the_batch, mark_summed
from ..process import PROCESS, multi_worker, worker_of
from ..runtime.scopes import adopt_optimizer
from .collectives import (
    can_sum,
    gather_rows,
    group_of,
    pack,
    replica_sum,
    sum_by_tensorflow,
    sum_directly,
    unpack,
)
from .recording import record_gradients

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

    from ...system.register import Seam
    from .recording import Gradient


def bytes_per_step(model: keras.Model, strategy: tf.distribute.Strategy) -> float:
    """Return the bytes that each worker sends per step for the gradients of all of a model's weights.

    With n workers, both TensorFlow's ring and the float32 sum of 16-bit gradients send every value
    ``2 (n - 1) / n`` times. Sparse gradients, such as those of embeddings, can take more or fewer bytes.
    """
    import tensorflow as tf

    workers = worker_of(strategy)[1]
    dtype = GRADIENT_DTYPE.of(strategy)
    values = sum(
        math.prod(variable.shape) * tf.as_dtype(variable.dtype if dtype == "float32" else dtype).size
        for variable in model.trainable_variables
    )
    return float(2 * (workers - 1) / workers * values)


def patch_gradients() -> None:
    """Make Keras's TensorFlow optimizers sum gradients over the workers before they change them.

    Keras sums them last, so it clips, and tests for infinity, what one worker has computed. One process does
    both with the gradient of the whole global batch. A step of the program may do such things itself; its
    gradients are then summed where a tape computes them (:func:`sums_at_tape`).
    """
    stock_clip, stock_sum = seams.CLIP_GRADIENTS.get(), seams.SUM_GRADIENTS.get()
    stock_apply = seams.LOSS_SCALE_APPLY.get()

    def sums_of(optimizer: keras.optimizers.Optimizer, gradients: Iterable[Gradient]) -> list[Gradient]:
        def stock(some: list[Gradient]) -> list[Gradient]:
            return [total for total, _ in stock_sum(optimizer, [(gradient, None) for gradient in some])]

        return _sum_gradients(seams.OPTIMIZER_STRATEGY.of(optimizer), gradients, stock)

    @seams.CLIP_GRADIENTS.wrap
    def clip_gradients(self: Any, gradients: Iterable[Gradient]) -> Any:
        if _sums_here(self) and not getattr(_already, "summed", False):
            gradients = sums_of(self, gradients)
        gradients = list(gradients)
        record_gradients(self, gradients)
        return stock_clip(self, gradients)

    @seams.SUM_GRADIENTS.wrap
    def all_reduce_sum_gradients(self: Any, grads_and_vars: Iterable[object]) -> Any:
        # Keras clips before it comes here, so these are sums.
        return list(grads_and_vars) if _sums_here(self) else stock_sum(self, grads_and_vars)

    def add_in_order(seam: Seam) -> None:
        stock = seam.get()

        @seam.wrap
        def assign(self: Any, variable: Any, value: Any) -> None:
            several = multi_worker(seams.OPTIMIZER_STRATEGY.of(self))
            stock(self, variable, _each_row_once(value) if several else value)

    add_in_order(seams.ASSIGN_ADD)
    add_in_order(seams.ASSIGN_SUB)

    @seams.LOSS_SCALE_APPLY.wrap
    def apply(self: Any, gradients: Iterable[Gradient], trainable_variables: Any = None) -> None:
        adopt_optimizer(self, trainable_variables or ())
        if not _sums_here(self):
            stock_apply(self, gradients, trainable_variables)
            return
        # If the workers tested their own gradients, one of them could skip a step that the others take.
        gradients = sums_of(self, gradients)
        _already.summed = True
        try:
            stock_apply(self, gradients, trainable_variables)
        finally:
            _already.summed = False


_already = threading.local()
_at_tape = threading.local()


@contextlib.contextmanager
def sums_at_tape(on: bool) -> Iterator[None]:
    """Inside the block, gradients are summed where a tape computes them, if ``on`` says so."""
    _at_tape.on = on
    try:
        yield
    finally:
        _at_tape.on = False


def as_summed(gradients: Any) -> Any:
    """Return a tape's gradients, a structure; in :func:`sums_at_tape` their sums over the workers."""
    import tensorflow as tf

    if not getattr(_at_tape, "on", False):
        return gradients
    context = tf.distribute.get_replica_context()
    sums = _sum_gradients(
        context.strategy,
        tf.nest.flatten(gradients),
        lambda some: context.all_reduce(tf.distribute.ReduceOp.SUM, some),
    )
    mark_summed(sums)
    return tf.nest.pack_sequence_as(gradients, sums)


def _sums_here(optimizer: keras.optimizers.Optimizer) -> bool:
    """Return whether an optimizer that is called here sums its gradients over several workers."""
    import tensorflow as tf

    several = multi_worker(seams.OPTIMIZER_STRATEGY.of(optimizer))
    return several and tf.distribute.get_replica_context() is not None


def _sum_gradients(
    strategy: tf.distribute.Strategy,
    gradients: Iterable[Gradient],
    stock_sum: Callable[[list[Gradient]], list[Gradient]],
) -> list[Gradient]:
    """Return the sums of gradients over the workers; None stays None, and what is computed from sums."""
    import tensorflow as tf

    PROCESS.adds_up = True
    gradients = list(gradients)
    direct, dtype = group_of(strategy) is not None, GRADIENT_DTYPE.of(strategy)
    # In eager mode the replicas' collectives run one after another, which only Keras's code handles.
    compressed = dtype != "float32" and not tf.executing_eagerly()

    def way(gradient: Gradient) -> str:
        if direct and can_sum(gradient):
            return "direct"
        if direct and isinstance(gradient, tf.IndexedSlices) and gradient.values.shape.rank:
            return "rows" if is_of_the_batch(gradient.indices) else "same rows"
        if tf.executing_eagerly() or not isinstance(gradient, tf.Tensor):
            return "stock"  # sparse gradients are sent unchanged
        return "compressed" if compressed and gradient.dtype.is_floating else "pieces"

    ways: dict[str, Callable[[list[Any]], list[Any]]] = {
        "direct": lambda some: sum_directly(strategy, some, None if dtype == "float32" else dtype),
        "compressed": lambda some: unpack(_sum_flat(pack(some), tf.as_dtype(dtype)), some),
        "rows": lambda some: _gather_sparse(strategy, some),
        "same rows": lambda some: _sum_sparse(strategy, some),
        "pieces": sum_by_tensorflow,
        "stock": stock_sum,
    }
    sums = list(gradients)
    own = [i for i, gradient in enumerate(gradients) if gradient is not None and not is_of_sums(gradient)]
    for name, add in ways.items():
        places = [i for i in own if way(gradients[i]) == name]
        if places:
            for place, total in zip(places, add([gradients[i] for i in places]), strict=True):
                sums[place] = total
    return sums


def _gather_sparse(
    strategy: tf.distribute.Strategy, gradients: list[tf.IndexedSlices]
) -> list[tf.IndexedSlices]:
    """Return sparse gradients with the rows of all workers, which optimizers add up.

    If a layer has taken equal rows together, as for sparse inputs, so has one process, for all rows.
    """
    import tensorflow as tf

    rows = gather_rows(strategy, [part for sparse in gradients for part in (sparse.values, sparse.indices)])

    def joined(sparse: tf.IndexedSlices, values: tf.Tensor, indices: tf.Tensor) -> tf.IndexedSlices:
        total = tf.IndexedSlices(values, indices, sparse.dense_shape)
        return _each_row_once(total) if _are_unique(sparse.indices) else total

    return [joined(*parts) for parts in zip(gradients, rows[::2], rows[1::2], strict=True)]


def _each_row_once(value: Any) -> Any:
    """Return a sparse value whose equal rows are added up, in their order; any other value as it is.

    TensorFlow adds sparse values to a variable with several threads. The order of equal rows differs from
    time to time, and so would the last bits between the workers.
    """
    import tensorflow as tf

    if not isinstance(value, tf.IndexedSlices) or _are_unique(value.indices):
        return value
    unique, places = tf.unique(value.indices)
    sums = tf.math.unsorted_segment_sum(value.values, places, tf.size(unique))
    return tf.IndexedSlices(sums, unique, value.dense_shape)


def _are_unique(indices: tf.Tensor) -> bool:
    """Return whether each index occurs once, because an operation of the graph has seen to it."""
    if not hasattr(indices, "graph"):
        return False
    operation = indices.op
    while operation.type in SAME:
        operation = operation.inputs[0].op
    return operation.type in ("Unique", "UniqueV2")


def _sum_sparse(
    strategy: tf.distribute.Strategy, gradients: list[tf.IndexedSlices]
) -> list[tf.IndexedSlices]:
    """Return the sums of sparse gradients that have the same rows on all workers, such as those of positions.

    In one process each of them is one row, and optimizers square the rows before they add them up.
    """
    import tensorflow as tf

    values = [replica_sum(sparse.values) for sparse in gradients]
    return [
        tf.IndexedSlices(total, sparse.indices, sparse.dense_shape)
        for sparse, total in zip(gradients, values, strict=True)
    ]


def _sum_flat(flat: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Return the float32 sum of a vector over the workers, sent as ``dtype``, equal on all workers.

    TensorFlow's ring would add in ``dtype`` and round at every hop. Instead, two workers exchange the whole
    vector and add it. With more workers, each worker receives all values of one slice, adds them, and sends
    the sum to all: at most twice the bytes of the vector, like the ring, for any number of workers.
    """
    import tensorflow as tf

    replica = tf.distribute.get_replica_context()
    launchers = seams.LAUNCHERS.of(seams.CROSS_DEVICE_OPS.of(replica.strategy.extended))
    launcher = launchers[seams.REPLICA_NUMBER.of(replica)]
    workers, size = seams.GROUP_SIZE.of(launcher), tf.size(flat)
    gather = seams.ALL_GATHER.of(launcher)

    def packed(values: tf.Tensor) -> tf.Tensor:
        # TensorFlow's gather supports float16 but not bfloat16; it only copies bits.
        return tf.bitcast(tf.cast(values, dtype), tf.float16)

    def unpacked(values: tf.Tensor) -> tf.Tensor:
        return tf.cast(tf.bitcast(values, dtype), tf.float32)

    if workers == 2 or not seams.ALL_TO_ALL.fits:
        both = gather(packed(flat), None)
        return tf.reduce_sum(unpacked(tf.reshape(both, [workers, -1])), axis=0)
    stretch = -(-size // workers)
    values = seams.ALL_TO_ALL.get()(
        tf.reshape(packed(tf.pad(flat, [[0, stretch * workers - size]])), [workers, stretch]),
        workers,
        seams.GROUP_KEY.of(launcher),
        seams.NEXT_KEY.of(launcher)(),
        ordering_token=[seams.GET_TOKEN.of(launcher)()],
    )
    own = tf.reduce_sum(unpacked(values), axis=0)
    return unpacked(gather(packed(own), None))[:size]

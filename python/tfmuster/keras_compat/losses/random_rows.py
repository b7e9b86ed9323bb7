"""Draw the random numbers of a global batch: each worker only those of its own rows.

Every worker has the same seeds, so a batch would have as many copies of each dropout mask as there are
workers. Instead, a number depends on its place in the global batch, as in one process.

TensorFlow's generators count: the numbers of a tensor come in groups of four (two of 64 bits), and group *i*
depends on the seed and *i* only (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011). So a
worker starts its uniform and normal numbers in the middle, at no cost. Other distributions use up a varying
count of numbers: they are drawn for the whole batch and cut.

A tensor may have the rows of several batches: one after the other (``tf.concat([generated, real], axis=0)``),
which the graph shows, or each row several times, where a layer has flattened a batch.

In a loop without ``fit``, each worker is taken to have as many rows as the others, in their order, as in a
whole batch that TensorFlow has distributed.

Keras's ``Equalization``, which ``RandAugment`` contains, spreads the values of each color by the histogram of
the whole batch, and not of each image: the workers' histograms are summed.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from ...system.register import Seam
from .. import seams
from ..process import multi_worker, worker_of
from ..step_rows import place_of_rows
from ..sums.collectives import replica_sum
from .graph_rows import blocks_of, source_of_shape

if TYPE_CHECKING:
    import tensorflow as tf

    Draw: TypeAlias = Callable[..., tf.Tensor]
    Number: TypeAlias = float | tf.Tensor


class Span(NamedTuple):
    """Which numbers a worker has of those that are drawn for a whole batch; scalars of type int64."""

    #: The shape for the whole batch.
    whole: tf.Tensor
    #: The worker's first row in each block, and its rows of a block.
    first: tf.Tensor
    rows: tf.Tensor
    #: How many blocks there are, each with the rows of all workers.
    blocks: int = 1

    @property
    def of_block(self) -> tf.Tensor:
        """The rows of all workers in a block."""
        return self.whole[0] // self.blocks

    @property
    def firsts(self) -> list[tf.Tensor]:
        """The worker's first row of each block in the whole batch."""
        return [self.first + block * self.of_block for block in range(self.blocks)]


#: Arguments of distributions that may differ between the rows.
_OF_ROWS = ("alpha", "beta", "counts", "probs", "mean", "stddev")

#: Parameters of the distributions whose numbers a worker draws from the middle on.
_SCALES = {"minval", "maxval", "mean", "stddev"}

#: Operations with a state that draw for the rows of their first argument. That of the others is a shape.
_OF_GIVEN_ROWS = ("random_shuffle", "multinomial")


class _Over:
    """A module, or a part of one, of which some names are others."""

    def __init__(self, stock: object, **others: object) -> None:
        self._stock = stock
        vars(self).update(others)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stock, name)


def patch_random() -> None:
    """Let the imported Keras and TensorFlow draw the numbers of a worker's own rows in its steps."""
    import tensorflow as tf

    def change_seed(seam: Seam) -> None:
        """Give an operation with a state another seed on each worker."""
        stock, of_given_rows = seam.get(), seam.path in _OF_GIVEN_ROWS

        @seam.wrap
        def draw(first: tf.Tensor, *args: object, seed: int = 0, seed2: int = 0, **kwargs: object) -> Any:
            context = _replica_of_several()
            # Without any seed, the numbers differ by themselves.
            if (seed, seed2) != (0, 0) and context is not None:
                shape = tf.shape(first) if of_given_rows else first
                if _span(shape) is not None:
                    seed2 = (seed2 + worker_of(context.strategy)[0] * 0x9E3779B9) % 2**31
            return stock(first, *args, seed=seed, seed2=seed2, **kwargs)

    for seam in (seams.RANDOM_TF, seams.IMAGE_TF):
        seam.replace(_with_own_rows(seam.get()))
    for seam in seams.STATEFUL_RANDOM:
        change_seed(seam)
    stock_values, stock_histogram = seams.FIRST_VALUES.get(), seams.HISTOGRAM.get()

    @seams.FIRST_VALUES.wrap
    def initialize(self: Any, initializer: Callable[..., object]) -> None:
        # They are drawn whole, wherever the variable is made.
        before, _first_values.drawn = getattr(_first_values, "drawn", False), True
        try:
            stock_values(self, initializer)
        finally:
            _first_values.drawn = before

    @seams.HISTOGRAM.wrap
    def histogram(self: Any, *args: object, **kwargs: object) -> Any:
        own, place = stock_histogram(self, *args, **kwargs), place_of_rows()
        if place is None or _replica_of_several() is None:
            return own
        # A worker without rows has read a placeholder row. Numbers of pixels are exact in 64 bits.
        counted = tf.where(place.rows > 0, tf.cast(own, tf.float64), 0.0)
        return tf.cast(replica_sum(counted), own.dtype)


def _with_own_rows(tensorflow: Any) -> _Over:
    """Return TensorFlow, as modules of Keras that draw random numbers see it."""
    stock, experimental = tensorflow.random, tensorflow.nn.experimental
    names = ("stateless_truncated_normal", "stateless_gamma", "stateless_binomial")
    random = _Over(
        stock,
        stateless_uniform=_placed(stock.stateless_uniform, seams.STATELESS_UNIFORM, _uniform),
        stateless_normal=_placed(stock.stateless_normal, seams.STATELESS_NORMAL, _normal),
        stateless_categorical=_categorical(stock.stateless_categorical),
        **{name: _cut(getattr(stock, name)) for name in names},
    )
    dropout = _dropout(experimental.stateless_dropout)
    nn = _Over(tensorflow.nn, experimental=_Over(experimental, stateless_dropout=dropout))
    return _Over(tensorflow, random=random, nn=nn)


_first_values = threading.local()


def _span(shape: tf.Tensor) -> Span | None:
    """Return which rows of which shape to draw.

    None outside of a step, for the first values of a weight, and for a shape whose first dimension is not one
    of rows.
    """
    import tensorflow as tf

    if getattr(_first_values, "drawn", False):
        return None
    place, context = place_of_rows(), _replica_of_several()
    if place is None and context is None:
        return None
    unconverted = tf.convert_to_tensor(shape)
    shape = tf.cast(unconverted, tf.int64)
    if shape.shape.rank != 1 or shape.shape[0] == 0:
        return None
    if place is None:
        assert context is not None
        whole = shape[0] * context.num_replicas_in_sync
        first = shape[0] * tf.cast(context.replica_id_in_sync_group, tf.int64)
        return Span(tf.concat([whole[tf.newaxis], shape[1:]], axis=0), first, shape[0])
    # A number in the program is no number of rows, unless those of the batch are known by number, too.
    # tf.get_static_value() knows no part of a constant shape.
    known = seams.SHAPE_OF_VALUE.get()(unconverted).as_list()[0]
    if known is not None and (not place.traced or known % place.traced):
        return None
    # A worker without rows has read a placeholder row.
    read = tf.maximum(place.rows, 1)
    source = source_of_shape(unconverted)
    blocks = 1 if source is None else blocks_of(source)
    # Layers may flatten a batch, which keeps the order of its rows.
    for_one, over = shape[0] // (blocks * read), shape[0] % (blocks * read)
    fits = over == 0
    whole = tf.where(fits, blocks * for_one * place.global_rows, shape[0])
    first = tf.where(fits, for_one * place.first, 0)
    return Span(tf.concat([whole[tf.newaxis], shape[1:]], axis=0), first, shape[0] // blocks, blocks)


def _replica_of_several() -> tf.distribute.ReplicaContext | None:
    """Return the context of this replica, if it is one of several workers; else None."""
    import tensorflow as tf

    context = tf.distribute.get_replica_context()
    return context if context is not None and multi_worker(context.strategy) else None


def _cut(stock: Draw) -> Draw:
    """Draw the numbers of the whole batch, and return those of the worker's rows."""

    @functools.wraps(stock)
    def draw(shape: tf.Tensor, *args: object, **kwargs: object) -> Any:
        if (span := _span(shape)) is None:
            return stock(shape, *args, **kwargs)
        of_whole = {
            name: _padded(value, span) if name in _OF_ROWS else value for name, value in kwargs.items()
        }
        return _own_rows(stock(span.whole, *args, **of_whole), span)

    return draw


def _own_rows(drawn: tf.Tensor, span: Span) -> tf.Tensor:
    """Return the worker's rows of what has been drawn for the whole batch."""
    import tensorflow as tf

    return tf.concat([drawn[first : first + span.rows] for first in span.firsts], axis=0)


def _padded(parameter: tf.Tensor, span: Span) -> Any:
    """Return a parameter of a distribution for the whole batch; of the rows of other workers it is 1."""
    import tensorflow as tf

    parameter = tf.convert_to_tensor(parameter)
    if parameter.shape.rank != span.whole.shape[0]:
        return parameter
    rows = (span.blocks * span.rows)[tf.newaxis]
    of_rows = tf.broadcast_to(parameter, tf.concat([rows, tf.shape(parameter, tf.int64)[1:]], axis=0))
    around = [[span.first, span.of_block - span.first - span.rows], *([[0, 0]] * (parameter.shape.rank - 1))]
    one = tf.ones([], parameter.dtype)
    blocks = tf.split(of_rows, span.blocks)
    return tf.concat([tf.pad(block, around, constant_values=one) for block in blocks], axis=0)


def _from_the_middle(shape: tf.Tensor, span: Span, seed: tf.Tensor, dtype: tf.DType, seam: Seam) -> tf.Tensor:
    """Draw the numbers of the worker's rows, in each block from the group on that has the first of them."""
    import tensorflow as tf

    in_row = tf.reduce_prod(span.whole[1:])
    count = span.rows * in_row
    group = 2 if tf.as_dtype(dtype).size == 8 else 4
    key, counter, algorithm = seams.KEY_COUNTER_ALGORITHM.get()(seed, "auto_select")
    numbers = []
    for begin in (first * in_row for first in span.firsts):
        # Philox has a counter of 128 bits, low word first; more than 2^64 groups are not drawn.
        ahead = tf.cast(begin // group, tf.uint64)
        from_there = tf.concat([counter[:1] + ahead, counter[1:]], axis=0)
        length = tf.reshape(begin % group + count, [1])
        drawn = seam.get()(length, key=key, counter=from_there, dtype=dtype, alg=algorithm)
        numbers.append(drawn[begin % group :])
    of_rows = tf.concat([(span.blocks * span.rows)[tf.newaxis], span.whole[1:]], axis=0)
    values = tf.reshape(tf.concat(numbers, axis=0), of_rows)
    return tf.ensure_shape(values, seams.SHAPE_OF_VALUE.get()(tf.convert_to_tensor(shape)))


def _placed(stock: Draw, seam: Seam, scale: Draw) -> Draw:
    """Draw the numbers of the worker's rows; ``scale`` gives them the parameters of the distribution."""
    import tensorflow as tf

    @functools.wraps(stock)
    def draw(
        shape: tf.Tensor, seed: tf.Tensor, dtype: tf.DType = tf.float32, **parameters: object
    ) -> tf.Tensor:
        if not tf.as_dtype(dtype).is_floating:
            return _cut(stock)(shape, seed, dtype=dtype, **parameters)
        if (span := _span(shape)) is None or not parameters.keys() <= _SCALES:
            return stock(shape, seed, dtype=dtype, **parameters)
        return scale(_from_the_middle(shape, span, seed, dtype, seam), **parameters)

    return draw


def _uniform(values: tf.Tensor, minval: Number = 0, maxval: Number | None = None) -> tf.Tensor:
    import tensorflow as tf

    low = tf.cast(minval, values.dtype)
    return values * (tf.cast(1 if maxval is None else maxval, values.dtype) - low) + low


def _normal(values: tf.Tensor, mean: Number = 0.0, stddev: Number = 1.0) -> tf.Tensor:
    import tensorflow as tf

    return values * tf.cast(stddev, values.dtype) + tf.cast(mean, values.dtype)


def _categorical(stock: Draw) -> Draw:
    """Draw categories by the numbers that the worker's rows have in the whole batch."""
    import tensorflow as tf

    @functools.wraps(stock)
    def draw(logits: tf.Tensor, num_samples: int, seed: tf.Tensor, **kwargs: object) -> Any:
        logits = tf.convert_to_tensor(logits)
        if (span := _span(tf.shape(logits))) is None:
            return stock(logits, num_samples, seed, **kwargs)
        return _own_rows(stock(_padded(logits, span), num_samples, seed, **kwargs), span)

    return draw


def _dropout(stock: Draw) -> Draw:
    """Drop by the same comparison as TensorFlow, with the uniform numbers of the worker's rows."""
    import tensorflow as tf

    @functools.wraps(stock)
    def drop(
        x: tf.Tensor, rate: float, seed: tf.Tensor, noise_shape: tf.Tensor | None = None, **kwargs: object
    ) -> Any:
        span = None if kwargs or noise_shape is None else _span(noise_shape)
        if span is None:
            return stock(x, rate, seed, noise_shape=noise_shape, **kwargs)
        x = tf.convert_to_tensor(x)
        numbers = _from_the_middle(noise_shape, span, seed, x.dtype, seams.STATELESS_UNIFORM)
        scaled = x * tf.cast(1 / (1 - rate), x.dtype)
        return tf.where(numbers >= tf.cast(rate, x.dtype), scaled, tf.zeros_like(x))

    return drop

"""Data that Python code makes, one batch after another: generators and PyDatasets.

TensorFlow reads a data set in threads of its own. A generator written in R can be called only in the main
thread. So the main thread calls it before each execution, as often as the execution has steps, and puts the
batches into a queue. The data set reads that queue, and never asks for more than it holds (:class:`Feed`).

Keras shuffles the items of a PyDataset with Python's generator of random numbers, in a thread. If a program
draws numbers of that generator while it makes items, the workers' orders would soon differ, and so would the
rows that they train on (:func:`share_order`).
"""

from __future__ import annotations

import functools
import queue
import random
import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import DataError
from ...system.user_code import module_of
from .. import seams
from ..process import is_chief
from ..sums.collectives import sum_of_workers
from .data_errors import generator_ended

if TYPE_CHECKING:
    import keras
    import numpy.typing as npt
    import tensorflow as tf

#: Longest wait for a batch, in seconds. The batches of an execution are in the queue before it begins.
_SECONDS = 10.0


class Calls:
    """An iterator over what a function returns, up to None. Keras calls it in the main thread."""

    def __init__(self, function: Callable[[], object]) -> None:
        self._function = function

    def __iter__(self) -> Calls:
        return self

    def __next__(self) -> object:
        value = self._function()
        if value is None:
            raise StopIteration
        return value


class Feed:
    """The batches of a generator, called in the main thread, as a data set."""

    def __init__(self, source: Iterator[object]) -> None:
        import tensorflow as tf

        self._source = source
        self._queue: queue.Queue[tuple[Any, ...] | None] = queue.Queue()
        self._batches = self._epochs = 0
        self._started = False
        self._spec: Any = None
        self._first = self._next()
        if self._first is None:
            raise DataError(
                "A generator must return at least one batch.",
                found="nothing in the first call",
                fix="return list(x, y) from each call, and NULL after the last batch",
                reason="generator-ended",
            )
        self._spec = tf.nest.map_structure(
            lambda array: tf.TensorSpec([None, *array.shape[1:]], array.dtype), self._first
        )
        #: Yields the batches that :meth:`fed` has put into the queue. Before that, it yields the first batch.
        self.dataset = tf.data.Dataset.from_generator(self._read, output_signature=self._spec)

    def fed(
        self, executions: Iterator[Any], steps_per_execution: int, steps_per_epoch: int | None
    ) -> Iterator[Any]:
        """Yield Keras's executions of an epoch, each after its batches are in the queue."""
        self._epochs += 1
        done = 0
        for execution in executions:
            before = done
            for _ in range(steps_per_execution):
                batch = self._next() if self._started else self._first
                self._started = True
                # None ends the data set, too: an execution may combine more steps than there are batches.
                self._queue.put(batch)
                if batch is None:
                    break
                done += 1
            if batch is None and (done == 0 or steps_per_epoch):
                raise DataError(
                    "The generator ended before the training did.",
                    found=f"{done} of {steps_per_epoch or 'unknown'} steps in its pass number {self._epochs}",
                    fix="let it return batches without end and pass steps_per_epoch or validation_steps; "
                    "a generator that ends serves one pass over the data",
                    reason="generator-ended",
                )
            if done > before:
                yield execution
            if batch is None:
                return

    def _next(self) -> tuple[Any, ...] | None:
        try:
            value = next(self._source)
        except StopIteration:
            return None
        self._batches += 1
        return self._checked(_as_arrays(value, self._batches))

    def _checked(self, batch: tuple[Any, ...]) -> tuple[Any, ...]:
        import tensorflow as tf

        arrays = tf.nest.flatten(batch)
        rows = {array.shape[0] if array.ndim else None for array in arrays}
        if len(rows) != 1 or rows & {None, 0}:
            raise _refusal(
                "The arrays of a batch must have the same number of rows, and at least one.",
                f"batch {self._batches} has the shapes {_shapes(arrays)}",
                "lengths-differ",
            )
        if self._spec is None:
            return batch
        try:
            tf.nest.assert_same_structure(self._spec, batch)
            alike = all(
                spec.shape.is_compatible_with(array.shape)
                for spec, array in zip(tf.nest.flatten(self._spec), arrays, strict=True)
            )
        except (TypeError, ValueError):
            alike = False
        if not alike:
            raise _refusal(
                "All batches of a generator must have the structure and the columns of the first one.",
                f"batch {self._batches} has the shapes {_shapes(arrays)}, the first one "
                f"{_shapes(tf.nest.flatten(self._first))}",
                "batch-shape",
            )
        return tf.nest.map_structure(  # type: ignore[no-any-return]
            lambda spec, array: array.astype(spec.dtype.as_numpy_dtype, copy=False), self._spec, batch
        )

    def _read(self) -> Iterator[Any]:
        """Yield batches in TensorFlow's thread."""
        if not self._started:
            yield self._first
            return
        while (batch := self._queue.get(timeout=_SECONDS)) is not None:
            yield batch


def take_generator(arguments: dict[str, Any], strategy: tf.distribute.Strategy) -> Feed | None:
    """Replace R's generator, if the arguments of an epoch iterator have one, by a data set."""
    source: Any = arguments.get("x")
    if not _in_main_thread_only(source):
        return None
    if strategy.num_replicas_in_sync > 1 and len(strategy.extended.worker_devices) > 1:
        raise _refusal(
            "A generator written in R can feed one device per process.",
            f"{len(strategy.extended.worker_devices)} devices",
            "generator-devices",
            fix="use one device per process, for example "
            "launch(control = launch_control(gpus_per_worker = 1)), or pass arrays",
        )
    if arguments.get("class_weight") is not None:
        raise _refusal(
            "class_weight does not apply to generators.",
            "a generator and class_weight",
            "generator-weights",
            fix="let the generator return list(x, y, weights)",
        )
    feed = Feed(source)
    arguments.update(x=feed.dataset, shuffle=False)
    return feed


def _in_main_thread_only(source: object) -> bool:
    if isinstance(source, types.GeneratorType):
        # R's keras3 wraps reticulate's iterator into a generator: `lambda iterator: (yield from iterator)`.
        return source.gi_frame is not None and any(
            _in_main_thread_only(value)
            for value in source.gi_frame.f_locals.values()
            if not isinstance(value, types.GeneratorType)
        )
    return isinstance(source, Calls) or module_of(source) == "rpytools.generator"


def _as_arrays(value: object, number: int) -> tuple[Any, ...]:
    """Return a batch as a tuple of structures of arrays, which share no memory with R.

    TensorFlow releases the arrays in its own threads, and R's memory must not be released there.
    """
    import keras
    import tensorflow as tf

    parts = list(value) if isinstance(value, (list, tuple)) else [value]
    while parts and parts[-1] is None:
        parts.pop()
    if not 1 <= len(parts) <= 3 or any(part is None for part in parts):
        raise _refusal(
            "A generator must return list(x), list(x, y), or list(x, y, weights) from each call.",
            f"batch {number} is a {type(value).__name__} of {len(parts)}",
            "batch-shape",
        )

    def as_array(value: object) -> npt.NDArray[np.generic]:
        array = np.array(value)
        if array.dtype.kind not in "fiub":
            raise _refusal(
                "The batches of a generator must be arrays of numbers.",
                f"batch {number} has values of type {array.dtype}",
                "not-numbers",
            )
        return array.astype(keras.config.floatx()) if array.dtype == np.float64 else array

    # A list of numbers is a vector of R, any other list a structure of arrays.
    return tuple(tf.nest.map_structure(as_array, _vectors(part)) for part in parts)


def _vectors(part: object) -> object:
    if isinstance(part, (list, tuple)):
        if part and all(isinstance(value, (bool, int, float)) for value in part):
            return np.array(part)
        return tuple(map(_vectors, part))
    return {key: _vectors(value) for key, value in part.items()} if isinstance(part, dict) else part


def _shapes(arrays: list[npt.NDArray[np.generic]]) -> str:
    return ", ".join("x".join(map(str, array.shape)) or "scalar" for array in arrays)


def _refusal(message: str, found: str, reason: str, fix: str | None = None) -> DataError:
    fix = fix or "return list(x, y) with one row of x for each label, with the same columns in each call"
    return DataError(message, found=found, fix=fix, reason=reason)


class Recorded:
    """What the Python code of a Keras data adapter has done."""

    def __init__(self, adapter: Any) -> None:
        #: What it has raised.
        self.exceptions: list[Exception] = []
        #: The number of batches of a generator that has ended.
        self.ended: int | None = None
        # A PyDataset's adapter has the one, a generator's the other.
        if callable(make := seams.ITEMS_ITERATOR.of(adapter, None)):
            seams.ITEMS_ITERATOR.set(adapter, self._recording(make))
        if callable(make := getattr(adapter, "generator", None)):
            adapter.generator = self._recording(self._once(make))

    def _once(self, make: Callable[[], Iterator[Any]]) -> Callable[[], Iterator[Any]]:
        """Refuse a second pass, for which Keras would repeat the first two batches of a generator."""

        def batches() -> Iterator[Any]:
            if self.ended is not None:
                raise generator_ended(self.ended, None)
            number = 0
            for batch in make():
                number += 1
                yield batch
            self.ended = number

        return batches

    def _recording(self, make: Callable[[], Iterator[Any]]) -> Callable[[], Iterator[Any]]:
        @functools.wraps(make)
        def batches() -> Iterator[Any]:
            try:
                yield from make()
            except Exception as error:
                self.exceptions.append(error)
                raise

        return batches


def share_order(adapter: Any, strategy: tf.distribute.Strategy) -> None:
    """Make a data adapter of Keras use the chief's order in each epoch, if it shuffles items."""
    items = getattr(adapter, "py_dataset", None)
    if items is None or not getattr(adapter, "shuffle", False) or items.num_batches is None:
        return
    ordered = _Ordered(items, strategy)
    adapter.py_dataset, adapter.shuffle = ordered, False
    if adapter.enqueuer is not None:
        adapter.enqueuer.py_dataset, adapter.enqueuer.shuffle = ordered, False
    stock = adapter.on_epoch_begin

    @functools.wraps(stock)
    def on_epoch_begin() -> None:
        # Before Keras's threads request items. All workers begin an epoch together.
        ordered.shuffle()
        stock()

    adapter.on_epoch_begin = on_epoch_begin


class _Ordered:
    """A PyDataset whose items come in an order that the chief draws anew for each epoch."""

    def __init__(self, items: keras.utils.PyDataset, strategy: tf.distribute.Strategy) -> None:
        self._items = items
        self._strategy = strategy
        self._order: list[int] | None = None

    def __getattr__(self, name: str) -> Any:
        # A copy in another process is made without `__init__`.
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._items, name)

    def __getstate__(self) -> dict[str, Any]:
        return {"_items": self._items, "_order": self._order, "_strategy": None}

    def __len__(self) -> int:
        return int(self._items.num_batches)

    def __getitem__(self, index: int) -> Any:
        return self._items[index if self._order is None else self._order[index]]

    def shuffle(self) -> None:
        """Draw the order of an epoch. All workers must call it."""
        order = list(range(len(self)))
        # Every worker draws, as one process does, so that their generators stay alike.
        random.shuffle(order)
        if not is_chief(self._strategy):
            order = [0] * len(order)
        self._order = [int(i) for i in sum_of_workers(self._strategy, np.array(order, np.int64))]

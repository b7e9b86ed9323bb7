"""Give all workers, and data sets that are made of one another, the same order of rows.

**Data sets.** The seed generator of every ``Dataset.shuffle`` is kept, so that two data sets can share one
order.

A shuffle draws the order of each pass from a generator inside TensorFlow. A second shuffle with the same seed
gives the same orders only if nobody has read the first one before. If both have the same generator, they give
the same orders in every case, also without a seed.

**PyDataset.** Keras shuffles the indices with Python's generator, in a thread. If a program draws numbers
of that generator while it makes items, the workers' orders would soon differ, and so would the rows that
they train on.
"""

from __future__ import annotations

import functools
import random
from typing import Any

import numpy as np

from .. import seams
from ..process import is_chief
from ..sums.collectives import sum_of_workers

_SEEDS = "_tfmuster_seed_generator"


class _Operations:
    """TensorFlow's operations of data sets, with a shuffle whose seed generator can be shared."""

    def __init__(self, operations: Any) -> None:
        self._operations = operations

    def __getattr__(self, name: str) -> Any:
        return getattr(self._operations, name)

    def shuffle_dataset_v3(self, input_dataset: Any, **arguments: Any) -> Any:
        """Make the shuffle, with a generator of its own in place of one that TensorFlow hides."""
        if not seams.EXECUTING_EAGERLY.get()():
            return self._operations.shuffle_dataset_v3(input_dataset, **arguments)
        made = self._operations.anonymous_seed_generator(
            arguments["seed"], arguments["seed2"], arguments["reshuffle_each_iteration"]
        )
        arguments["seed_generator"] = made.handle
        variant = self._operations.shuffle_dataset_v3(input_dataset, **arguments)
        # TensorFlow deletes the generator together with its `deleter`.
        setattr(variant, _SEEDS, made)
        return variant


def patch_shuffle() -> None:
    """Make shuffles from now on keep their generators. You can call it more than once."""
    if not seams.SHUFFLE_OPERATIONS.replaced:
        seams.SHUFFLE_OPERATIONS.replace(_Operations(seams.SHUFFLE_OPERATIONS.get()))


def can_share(shuffled: Any) -> bool:
    """Return whether the generator of a shuffled data set was kept."""
    return hasattr(seams.VARIANT.of(shuffled), _SEEDS)


def shuffled_alike(dataset: Any, shuffled: Any) -> Any:
    """Shuffle ``dataset`` as ``shuffled`` shuffles its own input: same buffer, same seeds, same generator."""
    seeds = getattr(seams.VARIANT.of(shuffled), _SEEDS)
    variant = seams.SHUFFLE_DATASET.get()(
        seams.VARIANT.of(dataset),
        buffer_size=seams.BUFFER_SIZE.of(shuffled),
        seed=seams.SHUFFLE_SEED.of(shuffled),
        seed2=seams.SHUFFLE_SEED2.of(shuffled),
        seed_generator=seeds.handle,
        reshuffle_each_iteration=bool(seams.RESHUFFLES.of(shuffled)),
        metadata=seams.METADATA.of(shuffled).SerializeToString(),
        **seams.FLAT_STRUCTURE.of(dataset),
    )
    made = seams.VARIANT_DATASET.get()(variant, dataset.element_spec)
    made._tfmuster_keeps = (dataset, seeds)
    return made


def share_order(adapter: Any, strategy: Any) -> None:
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

    def __init__(self, items: Any, strategy: Any) -> None:
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

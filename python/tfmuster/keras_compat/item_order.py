"""Give all workers the items of a shuffled ``keras.utils.PyDataset`` in the same order.

Keras shuffles the indices with Python's generator, in a thread. If a program draws numbers of that generator
while it makes items, the workers' orders would soon differ, and so would the rows that they train on.
"""

from __future__ import annotations

import functools
import random
from typing import Any

import numpy as np

from .strategy_info import is_chief
from .sums import sum_of_workers


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

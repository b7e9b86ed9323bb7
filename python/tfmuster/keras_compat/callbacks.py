"""Patches that add callbacks to every ``fit`` and call hooks when a multi-worker strategy is created."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from .strategy_info import agree_on_seed, multi_worker

#: Takes the callbacks of a ``fit`` and returns the ones to add.
CallbackMaker = Callable[[Sequence[Any]], list[Any]]
_makers: list[CallbackMaker] = []


def patch_callback_list(make: CallbackMaker) -> None:
    """Add the callbacks that `make` returns to every ``fit``, ``evaluate``, and ``predict`` of Keras."""
    from keras.src.callbacks import CallbackList

    if make in _makers:
        return
    _makers.append(make)
    stock_init = CallbackList.__init__

    @functools.wraps(stock_init)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        stock_init(self, *args, **kwargs)
        for callback in make(self.callbacks):
            callback.set_params(self.params)
            callback.set_model(self.model)
            self.callbacks.append(callback)

    CallbackList.__init__ = init


def patch_strategy(before: Callable[[], None], after: Callable[[], None]) -> None:
    """Call hooks when a plain ``tf.distribute.MultiWorkerMirroredStrategy()`` is created.

    Parameters
    ----------
    before : callable
        Called before the strategy reads its cluster from TF_CONFIG, so before TensorFlow binds a port.
    after : callable
        Called after the strategy is created and its workers share a seed. Not called for a single worker.
    """
    from tensorflow.python.distribute import collective_all_reduce_strategy

    made = collective_all_reduce_strategy.CollectiveAllReduceStrategy
    stock_init = made.__init__

    @functools.wraps(stock_init)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        if not args and kwargs.get("cluster_resolver") is None:
            before()
        stock_init(self, *args, **kwargs)
        if multi_worker(self):
            agree_on_seed(self)
            after()

    made.__init__ = init

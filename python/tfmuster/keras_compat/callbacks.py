"""Patches that call a given function: where a multi-worker strategy is made, and for every ``fit``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from .strategy_info import agree_on_seed, multi_worker

#: Makes more callbacks for a ``fit``, from those that it has.
CallbackMaker = Callable[[Sequence[Any]], list[Any]]
_makers: list[CallbackMaker] = []


def patch_callback_list(make: CallbackMaker) -> None:
    """Give every later ``fit``, ``evaluate`` and ``predict`` of Keras 3 the callbacks that `make` returns."""
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
    """Call functions where a plain ``tf.distribute.MultiWorkerMirroredStrategy()`` is made.

    Parameters
    ----------
    before : callable
        Called first, where the strategy reads its cluster from TF_CONFIG: TensorFlow has bound no port yet.
    after : callable
        Called when the strategy has been made, if it has several workers; they have agreed on a seed.
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

"""Add callbacks to every ``fit`` of Keras."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from .. import seams
from ..agreement.comparison import agree_on_stop
from ..process import in_multi_worker_strategy

#: Takes the callbacks of a ``fit`` and returns the ones to add.
CallbackMaker = Callable[[Sequence[Any]], list[Any]]
_makers: list[CallbackMaker] = []


def patch_callback_list(make: CallbackMaker) -> None:
    """Add the callbacks that `make` returns to every ``fit``, ``evaluate``, and ``predict`` of Keras."""
    if make in _makers:
        return
    _makers.append(make)
    stock_init = seams.CALLBACKS_INIT.get()

    @functools.wraps(stock_init)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        stock_init(self, *args, **kwargs)
        for callback in make(self.callbacks):
            callback.set_params(self.params)
            callback.set_model(self.model)
            self.callbacks.append(callback)

    seams.CALLBACKS_INIT.replace(init)


def patch_stops(together: Callable[[Any], bool] = in_multi_worker_strategy) -> None:
    """Let all workers stop a ``fit`` after the same epoch, also if a callback of one worker stops it.

    ``together`` tells whether a model has several workers.
    """
    stock = seams.CALLBACKS_EPOCH_END.get()

    @functools.wraps(stock)
    def on_epoch_end(self: Any, *args: Any, **kwargs: Any) -> None:
        stock(self, *args, **kwargs)
        if together(self.model):
            self.model.stop_training = agree_on_stop(self.model)

    seams.CALLBACKS_EPOCH_END.replace(on_epoch_end)

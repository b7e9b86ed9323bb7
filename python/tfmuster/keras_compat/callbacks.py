"""Patches that call a given function: before a multi-worker strategy is made, and for every ``fit``."""

from __future__ import annotations

import functools
from typing import Any

from ..worker.progress import progress_callback
from ..worker.trial import trial_callback


def patch_callback_list(callback_list: Any) -> None:
    """Give every ``fit`` of a worker this callback, also that of a program that never heard of tfmuster."""
    stock_init = callback_list.__init__

    @functools.wraps(stock_init)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        stock_init(self, *args, **kwargs)
        more = trial_callback()
        if not any(getattr(callback, "notes_progress", False) for callback in self.callbacks):
            more += progress_callback()
        for callback in more:
            callback.set_params(self.params)
            callback.set_model(self.model)
            self.callbacks.append(callback)

    callback_list.__init__ = init

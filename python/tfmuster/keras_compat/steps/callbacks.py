"""The callbacks of a call: those that tfmuster adds, where they stop, and whether one needs every step."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ...system.activity import ACTIVITY
from .. import seams
from ..agreement.callbacks import uses
from ..agreement.comparison import agree_on_stop
from ..agreement.documents import Call
from ..agreement.state import agree_on_state
from ..process import in_multi_worker_strategy

if TYPE_CHECKING:
    import keras

_BATCH_METHODS = (
    *("on_batch_begin", "on_batch_end", "on_train_batch_begin", "on_train_batch_end"),
    *("on_test_batch_begin", "on_test_batch_end"),
)

#: Where a list of callbacks keeps whose callbacks may stop a training after a batch.
_STOPPING: Final = "_tfmuster_stopping"
_PROGRAM: Final = "the program's"
_KERAS: Final = "Keras's"
_NOBODY: Final = "nobody's"

_chose_steps: weakref.WeakSet[keras.Model] = weakref.WeakSet()


@functools.cache
def patch_callback_list(
    make: Callable[[Sequence[keras.callbacks.Callback]], list[keras.callbacks.Callback]],
) -> None:
    """Add what `make` returns for the callbacks of a call to every ``fit``, ``evaluate`` and ``predict``."""
    stock = seams.CALLBACKS_INIT.get()

    @functools.wraps(stock)
    def init(self: keras.callbacks.CallbackList, *args: object, **kwargs: object) -> None:
        stock(self, *args, **kwargs)
        for callback in make(self.callbacks):
            callback.set_params(self.params)
            callback.set_model(self.model)
            self.callbacks.append(callback)

    seams.CALLBACKS_INIT.replace(init)


def patch_stops(together: Callable[[keras.Model], bool] = in_multi_worker_strategy) -> None:
    """Let all workers stop a ``fit`` after the same epoch or step, also if a callback of one worker stops it.

    At the end of an epoch, before a callback saves them, the workers compare their weights.
    """
    stock_epoch_end, stock_batch_end = seams.CALLBACKS_EPOCH_END.get(), seams.CALLBACKS_BATCH_END.get()

    @seams.CALLBACKS_EPOCH_END.wrap
    def on_epoch_end(self: keras.callbacks.CallbackList, *args: object, **kwargs: object) -> None:
        if not together(self.model):
            stock_epoch_end(self, *args, **kwargs)
            return
        agree_on_state(self.model, epoch=ACTIVITY.place().get("epoch", 1))
        stock_epoch_end(self, *args, **kwargs)
        self.model.stop_training = agree_on_stop(self.model, "an epoch")

    @seams.CALLBACKS_BATCH_END.wrap
    def on_train_batch_end(self: keras.callbacks.CallbackList, *args: object, **kwargs: object) -> None:
        if not together(self.model):
            stock_batch_end(self, *args, **kwargs)
            return
        if _STOPPING not in self.__dict__:
            self.__dict__[_STOPPING] = _who_stops(self.callbacks)
        _defer_stop(self.model)
        stock_batch_end(self, *args, **kwargs)
        if self.__dict__[_STOPPING] == _PROGRAM:
            self.model.stop_training = agree_on_stop(self.model, "a batch")
        elif self.__dict__[_STOPPING] == _NOBODY:
            # A signal may have arrived meanwhile.
            _defer_stop(self.model)


def _defer_stop(model: keras.Model) -> None:
    """Let a ``stop_training`` that no callback has set act when all workers know it: after the next step."""
    call = Call.of(model)
    if call is not None and call.compared:
        call.wishes_stop = call.wishes_stop or bool(model.stop_training)
        model.stop_training = call.stops


def _who_stops(callbacks: Iterable[keras.callbacks.Callback]) -> str:
    """Return whose callbacks may stop a training after a batch."""
    # What is set when an epoch begins acts after its first batch.
    methods = (*_BATCH_METHODS, "on_epoch_begin")
    acting = [callback for callback in callbacks if overrides(callback, methods)]
    if any(uses(callback, "stop_training") for callback in acting):
        return _PROGRAM
    # Keras's own see the same logs on all workers.
    return (
        _KERAS if any(uses(callback, "stop_training", in_libraries=True) for callback in acting) else _NOBODY
    )


def may_choose(model: keras.Model) -> bool:
    """Return whether the steps per execution are free: neither the user nor a callback depends on them."""
    call = Call.of(model)
    return (
        not model.run_eagerly
        and model.steps_per_execution == 1
        and model not in _chose_steps
        and not any(map(_needs_batches, callbacks_in(call.arguments if call else None)))
    )


def _needs_batches(callback: object) -> bool:
    import keras

    if (needs := getattr(callback, "needs_batches", None)) is not None:
        return bool(needs)
    if isinstance(callback, (keras.callbacks.History, keras.callbacks.ProgbarLogger)):
        return False
    if isinstance(callback, (keras.callbacks.ModelCheckpoint, keras.callbacks.BackupAndRestore)):
        return bool(callback.save_freq != "epoch")
    if isinstance(callback, keras.callbacks.TensorBoard):
        return bool(callback.update_freq != "epoch" or seams.PROFILED.of(callback))
    return overrides(callback, _BATCH_METHODS)


def overrides(callback: object, methods: Iterable[str]) -> bool:
    """Return whether a callback overrides one of these methods."""
    import keras

    return any(
        getattr(getattr(callback, name, None), "__func__", None)
        is not getattr(keras.callbacks.Callback, name)
        for name in methods
    )


def callbacks_in(arguments: Mapping[str, Any] | None) -> list[object]:
    """Return the callbacks among the arguments of a model's method; none if they are wrong."""
    callbacks = (arguments or {}).get("callbacks") or ()
    callbacks = getattr(callbacks, "callbacks", callbacks)
    return list(callbacks) if isinstance(callbacks, Iterable) else [callbacks]


def note_choice(model: keras.Model, *, chosen: bool) -> None:
    """Remember whether a model was compiled with ``steps_per_execution``."""
    if chosen:
        _chose_steps.add(model)
    else:
        _chose_steps.discard(model)


def patch_choices() -> None:
    """Let a model that was compiled from a saved configuration choose."""
    stock = seams.COMPILE_FROM_CONFIG.get()

    @functools.wraps(stock)
    def compile_from_config(self: keras.Model, config: dict[str, Any]) -> None:
        stock(self, config)
        # The config of a saved model has every argument, even if the user did not set it.
        note_choice(self, chosen=False)

    seams.COMPILE_FROM_CONFIG.replace(compile_from_config)

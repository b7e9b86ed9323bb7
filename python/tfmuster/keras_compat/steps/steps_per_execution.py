"""Choose how many steps one execution of ``fit`` or ``evaluate`` runs, if the user does not set it.

Calling TensorFlow once per step costs about a millisecond, and the workers reduce their logs in every
execution. So if no callback needs every step, an execution takes as many steps as fit into a fifth of a
second. The results stay the same, bit for bit. Models with moving statistics (BatchNormalization) keep one
step, because the rounding of their means would depend on the speed of the machine.
"""

from __future__ import annotations

import functools
import os
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ...environment import STEPS_PER_EXECUTION_VARIABLE
from .. import seams

#: Target for the longest execution, in seconds: callbacks and Ctrl-C are handled only between executions.
_SECONDS = 0.2

#: Most steps of an execution, if the user does not set it.
MOST_STEPS = 32

_BATCH_METHODS = (
    *("on_batch_begin", "on_batch_end", "on_train_batch_begin", "on_train_batch_end"),
    *("on_test_batch_begin", "on_test_batch_end"),
)

_chose_steps: weakref.WeakSet[Any] = weakref.WeakSet()
_callbacks: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


class StepsPerExecution:
    """The number of steps of the next execution, the same on all workers.

    Attributes
    ----------
    steps : int
        Wanted number of steps of the next execution.
    granted : int
        Actual number of steps: fewer at the end of an epoch.
    """

    def __init__(self) -> None:
        self._fixed = int(os.environ.get(STEPS_PER_EXECUTION_VARIABLE) or 0)
        self.steps = self.granted = self._fixed or 1
        self._executions = 0
        self._seconds_per_step = 0.0

    def report(self) -> float:
        """Return the seconds per step of the previous execution on this worker; 0 if it is not usable."""
        # The first execution also builds the graph, so its time is not usable.
        return self._seconds_per_step if self._executions > 1 else 0.0

    def ended(self, seconds: float, mean_report: float) -> None:
        """Record the seconds of an execution on this worker, and the mean of the workers' reports."""
        self._executions += 1
        self._seconds_per_step = seconds / self.granted
        if mean_report > 0 and not self._fixed:
            self.steps = min(MOST_STEPS, max(1, int(_SECONDS / mean_report)))


def in_executions(epochs: Any, steps: Iterator[Any], pace: StepsPerExecution, skipped: int) -> Iterator[Any]:
    """Combine single steps of an epoch into executions.

    Parameters
    ----------
    epochs : keras EpochIterator
        Its numbers of steps tell when an epoch ends. Never request a step beyond the end before the data of
        the earlier steps is read: the generator then restarts the data.
    steps : iterator of tuples
        (step, iterator) up to Keras 3.10, (first step, last step, iterator) later.
    pace : StepsPerExecution
        Sets how many steps the next execution should have; its ``granted`` is updated.
    skipped : int
        Steps of this epoch that were already taken from ``steps``.
    """
    left = (epochs.steps_per_epoch or seams.NUM_BATCHES.of(epochs) or float("inf")) - skipped
    while left > 0:
        pace.granted = int(min(pace.steps, left))
        left -= pace.granted
        first = last = next(steps, None)
        for _ in range(pace.granted - 1):
            last = next(steps, None) or last
        if first is None or last is None:
            return
        yield first if len(first) == 2 else (first[0], last[1], last[2])
    # Exhaust the generator, so that Keras ends the epoch.
    yield from steps


def may_choose(model: Any) -> bool:
    """Return whether the steps per execution are free: neither the user nor a callback depends on them."""
    return (
        not model.run_eagerly
        and model.steps_per_execution == 1
        and model not in _chose_steps
        and not any(_needs_batches(callback) for callback in _callbacks.get(model, ()))
    )


def _needs_batches(callback: Any) -> bool:
    import keras

    known = keras.callbacks
    if (needs := getattr(callback, "needs_batches", None)) is not None:
        return bool(needs)
    if isinstance(callback, (known.History, known.ProgbarLogger)):
        return False
    if isinstance(callback, (known.ModelCheckpoint, known.BackupAndRestore)):
        return bool(callback.save_freq != "epoch")
    if isinstance(callback, known.TensorBoard):
        return bool(callback.update_freq != "epoch" or seams.PROFILED.of(callback))
    return overrides(callback, _BATCH_METHODS)


def overrides(callback: Any, methods: Iterable[str]) -> bool:
    """Return whether a callback overrides one of these methods."""
    import keras

    return any(
        getattr(getattr(callback, name, None), "__func__", None)
        is not getattr(keras.callbacks.Callback, name)
        for name in methods
    )


def callbacks_in(arguments: Mapping[str, Any] | None) -> list[Any]:
    """Return the callbacks among the arguments of a model's method; none if they are wrong."""
    given = (arguments or {}).get("callbacks") or ()
    given = getattr(given, "callbacks", given)
    return list(given) if isinstance(given, Iterable) else [given]


def note_callbacks(model: Any, callbacks: list[Any]) -> None:
    """Remember the callbacks of the model's current ``fit`` or ``evaluate``."""
    _callbacks[model] = callbacks


def note_choice(model: Any, *, chosen: bool) -> None:
    """Remember whether a model was compiled with ``steps_per_execution``."""
    if chosen:
        _chose_steps.add(model)
    else:
        _chose_steps.discard(model)


def patch_choices() -> None:
    """Let a model that was compiled from a saved configuration choose."""
    stock = seams.COMPILE_FROM_CONFIG.get()

    @functools.wraps(stock)
    def compile_from_config(self: Any, config: Any) -> None:
        stock(self, config)
        # The config of a saved model has every argument, even if the user did not set it.
        note_choice(self, chosen=False)

    seams.COMPILE_FROM_CONFIG.replace(compile_from_config)

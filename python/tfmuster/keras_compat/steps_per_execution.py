"""How many steps one execution of ``fit`` or ``evaluate`` runs, where the user has not said.

Calling TensorFlow once per step costs about a millisecond, and the workers agree on their logs in every
execution. So where nobody needs to know of each step, an execution takes as many steps as fit into a fifth
of a second. What is computed stays the same, bit for bit; models with moving statistics (BatchNormalization)
keep one step, because the rounding of their means would depend on how fast the machine is.
"""

from __future__ import annotations

import functools
import inspect
import os
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ..environment import STEPS_PER_EXECUTION_VARIABLE

#: Longest that an execution should take, seconds: between executions callbacks run and Ctrl-C is heard.
_SECONDS = 0.2
_MOST_STEPS = 32
#: Fixes the number, so that trials of a program can tell what it is worth.

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
        Steps that the next execution should have.
    granted : int
        Steps that it will have: fewer at the end of an epoch.
    """

    def __init__(self) -> None:
        self._fixed = int(os.environ.get(STEPS_PER_EXECUTION_VARIABLE) or 0)
        self.steps = self.granted = self._fixed or 1
        self._executions = 0
        self._seconds_per_step = 0.0

    def report(self) -> float:
        """Seconds per step of the execution before this one, on this worker; 0 if that says nothing."""
        # The first builds the graph.
        return self._seconds_per_step if self._executions > 1 else 0.0

    def ended(self, seconds: float, mean_report: float) -> None:
        """Note how long an execution took here, and what the workers reported to it on average."""
        self._executions += 1
        self._seconds_per_step = seconds / self.granted
        if mean_report > 0 and not self._fixed:
            self.steps = min(_MOST_STEPS, max(1, int(_SECONDS / mean_report)))


def in_executions(epochs: Any, steps: Iterator[Any], pace: StepsPerExecution, skipped: int) -> Iterator[Any]:
    """Put single steps of an epoch together to executions.

    Parameters
    ----------
    epochs : keras EpochIterator
        Its numbers of steps say when an epoch ends. The generator must not be asked for a step beyond that
        before the data of the ones before it were read: it then begins anew with the data.
    steps : iterator of tuples
        (step, iterator) up to Keras 3.10, (first step, last step, iterator) later.
    pace : Pace
        Says how many steps the next execution should have, and is told how many it has.
    skipped : int
        Steps of this epoch that were taken from ``steps`` before.
    """
    left = (epochs.steps_per_epoch or epochs._num_batches or float("inf")) - skipped
    while left > 0:
        pace.granted = int(min(pace.steps, left))
        left -= pace.granted
        first = last = next(steps, None)
        for _ in range(pace.granted - 1):
            last = next(steps, None) or last
        if first is None or last is None:
            return
        yield first if len(first) == 2 else (first[0], last[1], last[2])
    # Lets Keras end the epoch.
    yield from steps


def may_choose(model: Any) -> bool:
    """Whether neither the user nor a callback cares how many steps an execution has."""
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
        return bool(callback.update_freq != "epoch" or callback._start_batch)
    return overrides(callback, _BATCH_METHODS)


def overrides(callback: Any, methods: Iterable[str]) -> bool:
    """Whether a callback has one of these methods of its own."""
    import keras

    return any(
        getattr(getattr(callback, name, None), "__func__", None)
        is not getattr(keras.callbacks.Callback, name)
        for name in methods
    )


def given_callbacks(
    signature: inspect.Signature, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[Any]:
    """The callbacks among the arguments of a model's method."""
    try:
        given = signature.bind(model, *args, **kwargs).arguments.get("callbacks") or ()
    except TypeError:
        return []  # Keras says what is wrong with the arguments
    given = getattr(given, "callbacks", given)
    return list(given) if isinstance(given, Iterable) else [given]


def patch_choices(trainer: Any, base: Any) -> None:
    """Note which models were compiled with a number of steps, and with which callbacks they are called."""

    def notes_callbacks(stock: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(stock)

        @functools.wraps(stock)
        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            _callbacks[self] = given_callbacks(signature, self, args, kwargs)
            return stock(self, *args, **kwargs)

        return method

    stock_compile, stock_from_config = base.compile, base.compile_from_config
    signature = inspect.signature(stock_compile)

    @functools.wraps(stock_compile)
    def compile(self: Any, *args: Any, **kwargs: Any) -> None:
        stock_compile(self, *args, **kwargs)
        if "steps_per_execution" in signature.bind(self, *args, **kwargs).arguments:
            _chose_steps.add(self)
        else:
            _chose_steps.discard(self)

    @functools.wraps(stock_from_config)
    def compile_from_config(self: Any, config: Any) -> None:
        stock_from_config(self, config)
        # A saved model names every argument, whether its author did or not.
        _chose_steps.discard(self)

    base.compile, base.compile_from_config = compile, compile_from_config
    trainer.fit = notes_callbacks(trainer.fit)
    trainer.evaluate = notes_callbacks(trainer.evaluate)

"""Let ``fit`` go on in the middle of an epoch, with the data at the place where they were."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Iterator
from typing import Any

from .steps_per_execution import StepsPerExecution, in_executions

_SKIP = "_tfmuster_skip"
_PACE = "_tfmuster_pace"
# The epoch iterator of the `fit` that a model is in: Keras keeps it in a local variable.
_training: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def remember_epochs(model: Any, epochs: Any) -> None:
    """Note the epoch iterator that a call of ``fit``, ``evaluate`` or ``predict`` begins with."""
    _training[model] = weakref.ref(epochs)


def training_epochs(model: Any) -> Any:
    """The epoch iterator of the call that ``model`` is in; None in a call for one batch."""
    noted = _training.get(model)
    return None if noted is None else noted()


def resume_at(model: Any, epoch: int, step: int) -> None:
    """Begin the ``fit`` that has just called ``on_train_begin`` at a step of an epoch, both counted from 0.

    The data that were trained on before are read and left, so every later batch is the one that an
    undisturbed run has. From a data set that ends with each epoch only one batch of each earlier epoch is
    read, which moves a seeded shuffling on to its next order.
    """
    model._initial_epoch = epoch
    setattr(training_epochs(model), _SKIP, (epoch, step))


def set_pace(model: Any, pace: StepsPerExecution | None) -> None:
    """Let the call that ``model`` is in choose its steps per execution, or not."""
    if (epochs := training_epochs(model)) is not None:
        setattr(epochs, _PACE, pace)


def patch_epochs(epochs: Any) -> None:
    """Make Keras's epoch iterator able to skip, and to put steps together to executions."""
    stock = epochs._enumerate_iterator

    @functools.wraps(stock)
    def enumerate_iterator(self: Any) -> Iterator[Any]:
        earlier, steps = self.__dict__.pop(_SKIP, (0, 0))
        for _ in range(earlier):
            _pass_over(self, stock(self))
        epoch = stock(self)
        for _ in range(0, steps, self.steps_per_execution):
            _read(next(epoch)[2], self.steps_per_execution)
        pace = self.__dict__.get(_PACE)
        yield from epoch if pace is None else in_executions(self, epoch, pace, steps)

    epochs._enumerate_iterator = enumerate_iterator


def _pass_over(self: Any, epoch: Iterator[Any]) -> None:
    """Leave the data as a whole epoch of training leaves them."""
    ends_with_epoch = self.steps_per_epoch is None and self.num_batches is not None
    with self.catch_stop_iteration():
        for number, (_, _, iterator) in enumerate(epoch):
            # The iterator of an epoch that is over is dropped: to have begun it is enough.
            if number == 0 or not ends_with_epoch:
                _read(iterator, self.steps_per_execution)


def _read(iterator: Iterator[Any], batches: int) -> None:
    for _ in range(batches):
        next(iterator)

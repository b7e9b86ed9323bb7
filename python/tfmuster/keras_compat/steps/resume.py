"""Let ``fit`` resume in the middle of an epoch, at the same position in the data."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from ...errors import CheckpointError
from ...system.activity import ACTIVITY
from .. import seams
from ..data.feeding import feed_of
from .steps_per_execution import StepsPerExecution, in_executions

_SKIP = "_tfmuster_skip"
_PACE = "_tfmuster_pace"
_FROM = "_tfmuster_from"

# The epoch iterator of a model's current `fit`, which Keras keeps only in a local variable.
_training: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def remember_epochs(model: Any, epochs: Any) -> None:
    """Record the epoch iterator of a call of ``fit``, ``evaluate``, or ``predict``."""
    _training[model] = weakref.ref(epochs)


def training_epochs(model: Any) -> Any:
    """Return the epoch iterator of the model's current call; None if the call takes a single batch."""
    noted = _training.get(model)
    return None if noted is None else noted()


def resume_at(model: Any, epoch: int, step: int) -> None:
    """Start the ``fit`` that has just called ``on_train_begin`` at this epoch and step, both from 0.

    Batches that were trained on before are read and discarded, so every later batch is the same as in an
    uninterrupted run. If the data set ends with each epoch, only one batch of each earlier epoch is read,
    which advances a seeded shuffle to its next order. Endless data of ``batches`` and ``file_batches`` begin
    at the step without reading what is before it.
    """
    seams.INITIAL_EPOCH.set(model, epoch)
    setattr(training_epochs(model), _SKIP, (epoch, step))


def set_pace(model: Any, pace: StepsPerExecution | None) -> None:
    """Set the pace that chooses the steps per execution of the model's current call; None turns it off."""
    if (epochs := training_epochs(model)) is not None:
        setattr(epochs, _PACE, pace)


def can_begin_at(epochs: Any, data_from: Callable[[int], Any]) -> None:
    """Let an epoch iterator begin in the middle of endless data: ``data_from(n)`` leaves out n batches."""
    setattr(epochs, _FROM, data_from)


def patch_epochs() -> None:
    """Make Keras's epoch iterator skip batches and combine steps into executions."""
    unfed = seams.EPOCHS_STEPS.get()

    def stock(self: Any) -> Iterator[Any]:
        feed = feed_of(self)
        return unfed(self) if feed is None else feed.fed(self, unfed(self))

    @functools.wraps(unfed)
    def enumerate_iterator(self: Any) -> Iterator[Any]:
        earlier, steps = self.__dict__.pop(_SKIP, (0, 0))
        data_from = self.__dict__.get(_FROM)
        left_out = bool(data_from and (earlier or steps) and self.steps_per_epoch and not self.num_batches)
        if left_out:
            seams.EPOCHS_DATASET.set(self, data_from(earlier * self.steps_per_epoch + steps))
        else:
            for _ in range(earlier):
                _pass_over(self, stock(self))
        epoch = stock(self)
        for at in range(0, steps, self.steps_per_execution):
            if (step := next(epoch, None)) is None or not (
                left_out or _has(step[-1], self.steps_per_execution)
            ):
                raise _too_few(steps, at)
        pace = self.__dict__.get(_PACE)
        place = place_in_epoch(self, earlier)
        for step in epoch if pace is None else in_executions(self, epoch, pace, steps):
            place["step"] = int(step[0]) + 1
            yield step
            ended, ACTIVITY.data_ended = ACTIVITY.data_ended, None
            if ended is not None and self.steps_per_epoch and seams.NUM_BATCHES.of(self) is None:
                _end_early(self)
                return

    seams.EPOCHS_STEPS.replace(enumerate_iterator)


def _too_few(steps: int, found: int) -> CheckpointError:
    return CheckpointError(
        "A training resumes exactly only with the data that it began with.",
        found=f"the checkpoint was written after {steps} steps of an epoch; the data end after {found}",
        fix="give it the same data and batch size; or remove the checkpoints, or choose another folder",
        path=None,
        reason="other-data",
    )


def _end_early(self: Any) -> None:
    """End an epoch whose data ended within an execution, which Keras takes for a complete one."""
    with self.catch_stop_iteration():
        raise StopIteration


def place_in_epoch(self: Any, earlier: int = 0) -> dict[str, Any]:
    """Note that an epoch begins, after so many that were left out. Return the position to update."""
    place = ACTIVITY.place()
    if place.get("call") == "fit":
        place["epoch"] = place.get("epoch", 0) + earlier + 1
    place["steps"] = self.steps_per_epoch or seams.NUM_BATCHES.of(self)
    return place


def _pass_over(self: Any, epoch: Iterator[Any]) -> None:
    """Advance the data to where a whole epoch of training leaves it."""
    ends_with_epoch = self.steps_per_epoch is None and self.num_batches is not None
    with self.catch_stop_iteration():
        for number, (*_, iterator) in enumerate(epoch):
            # Keras drops the iterator at the end of an epoch, so starting it is enough.
            if number == 0 or not ends_with_epoch:
                _read(iterator, self.steps_per_execution)


def _has(iterator: Iterator[Any], batches: int) -> bool:
    """Read so many batches, and return whether there are as many."""
    try:
        _read(iterator, batches)
    except StopIteration:
        return False
    return True


def _read(iterator: Iterator[Any], batches: int) -> None:
    for _ in range(batches):
        next(iterator)

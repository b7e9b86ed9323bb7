"""Let ``fit`` resume in the middle of an epoch, at the same position in the data."""

from __future__ import annotations

import functools
import os
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from ...environment import STEPS_PER_EXECUTION_VARIABLE
from ...errors import CheckpointError
from ...system.activity import ACTIVITY
from .. import seams
from ..data.python_data import feed_of

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


#: Target for the longest execution, in seconds: callbacks and Ctrl-C are handled only between executions.
_SECONDS = 0.2

#: Most steps of an execution, if the user does not set it.
MOST_STEPS = 32


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

"""The epochs of a call: where they begin, and how many steps an execution has.

``fit`` can resume in the middle of an epoch, at the same position in the data.

Calling TensorFlow once per step costs about a millisecond, and the workers reduce their logs in every
execution. So if neither the user nor a callback depends on single steps, an execution takes as many steps as
fit into a fifth of a second. The results stay the same, bit for bit. Models with
moving statistics of the workers' own rows keep one step, because the rounding of their means would depend on
the speed of the machine.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ...environment import STEPS_PER_EXECUTION_VARIABLE
from ...errors import CheckpointError
from ...system.activity import ACTIVITY
from .. import seams
from ..data.python_data import Feed, Recorded

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

    from ..agreement.documents import EpochIterator

#: Target for the longest execution, in seconds: callbacks and Ctrl-C are handled only between executions.
_SECONDS = 0.2

#: Most steps of an execution, if the user does not set it.
MOST_STEPS = 32


class StepsPerExecution:
    """The number of steps of the next execution, the same on all workers."""

    def __init__(self) -> None:
        self._fixed = int(os.environ.get(STEPS_PER_EXECUTION_VARIABLE) or 0)
        #: The wanted steps, and how many the next execution has: fewer at the end of an epoch.
        self.steps = self.granted = self._fixed or 1
        #: Whether the last step of an epoch has an execution of its own, because its batch may be smaller.
        self.last_alone = False
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


@dataclasses.dataclass
class EpochState:
    """What tfmuster keeps about an epoch iterator."""

    #: Calls a generator of R before each execution.
    feed: Feed | None = None
    #: What the Python code of the data has done.
    recorded: Recorded | None = None
    #: The epoch and the step at which to begin, both from 0.
    begin: tuple[int, int] = (0, 0)
    #: Makes endless data without their first n batches.
    data_from: Callable[[int], tf.data.Dataset] | None = None
    #: Chooses the steps per execution.
    pace: StepsPerExecution | None = None

    def take_begin(self) -> tuple[int, int]:
        """Return where to begin, once."""
        begin, self.begin = self.begin, (0, 0)
        return begin


def state_of(epochs: object) -> EpochState:
    """Return what is kept about an epoch iterator."""
    state: EpochState = epochs.__dict__.setdefault("_tfmuster_state", EpochState())
    return state


# The epoch iterator of a model's current call, which Keras keeps only in a local variable.
_current: weakref.WeakKeyDictionary[keras.Model, weakref.ref[EpochIterator]] = weakref.WeakKeyDictionary()


def remember_epochs(model: keras.Model, epochs: Any) -> None:
    """Record the epoch iterator of a call of ``fit``, ``evaluate``, or ``predict``."""
    _current[model] = weakref.ref(epochs)


def training_epochs(model: keras.Model) -> EpochIterator | None:
    """Return the epoch iterator of the model's current call; None if the call takes a single batch."""
    reference = _current.get(model)
    return None if reference is None else reference()


def resume_at(model: keras.Model, epoch: int, step: int) -> None:
    """Start the ``fit`` that has just called ``on_train_begin`` at this epoch and step, both from 0.

    Earlier batches are read and discarded, so that later ones are as in an uninterrupted run. If the data set
    ends with each epoch, only one batch of each earlier epoch is read, which advances a seeded shuffle to its
    next order. Endless ``batches`` and ``file_batches`` read nothing before the step.
    """
    seams.INITIAL_EPOCH.set(model, epoch)
    state_of(training_epochs(model)).begin = (epoch, step)


def patch_epochs() -> None:
    """Make Keras's epoch iterator skip batches and combine steps into executions."""
    stock = seams.EPOCHS_STEPS.get()

    def executions_of(epochs: EpochIterator) -> Iterator[Any]:
        feed = state_of(epochs).feed
        if feed is None:
            return stock(epochs)  # type: ignore[no-any-return]
        return feed.fed(stock(epochs), epochs.steps_per_execution, epochs.steps_per_epoch)

    @functools.wraps(stock)
    def enumerate_iterator(self: Any) -> Iterator[Any]:
        state = state_of(self)
        earlier, steps = state.take_begin()
        data_from: Any = state.data_from
        endless = bool(self.steps_per_epoch and not self.num_batches)
        left_out = endless and data_from is not None and (earlier or steps)
        if left_out:
            seams.EPOCHS_DATASET.set(self, data_from(earlier * self.steps_per_epoch + steps))
        else:
            for _ in range(earlier):
                _pass_over(self, executions_of(self))
        epoch = executions_of(self)
        for done in range(0, steps, self.steps_per_execution):
            if (step := next(epoch, None)) is None or not (
                left_out or _has(step[-1], self.steps_per_execution)
            ):
                raise CheckpointError(
                    "A training resumes exactly only with the data that it began with.",
                    found=f"the checkpoint was written after {steps} steps of an epoch; "
                    f"the data end after {done}",
                    fix="give it the same data and batch size; or remove the checkpoints, or choose another "
                    "folder",
                    reason="other-data",
                )
        place = place_in_epoch(self, earlier)
        for step in epoch if state.pace is None else _in_executions(self, epoch, state.pace, steps):
            place["step"] = int(step[0]) + 1
            yield step
            ended, ACTIVITY.data_ended = ACTIVITY.data_ended, None
            if ended is not None and self.steps_per_epoch and seams.NUM_BATCHES.of(self) is None:
                _end_early(self)
                return

    seams.EPOCHS_STEPS.replace(enumerate_iterator)


def _end_early(epochs: EpochIterator) -> None:
    """End an epoch whose data ended within an execution, which Keras takes for a complete one."""
    with epochs.catch_stop_iteration():
        raise StopIteration


def place_in_epoch(epochs: EpochIterator, earlier: int = 0) -> dict[str, Any]:
    """Note that an epoch begins, after so many that were left out. Return the position to update."""
    place = ACTIVITY.place()
    if place.get("call") == "fit":
        place["epoch"] = place.get("epoch", 0) + earlier + 1
    place["steps"] = epochs.steps_per_epoch or seams.NUM_BATCHES.of(epochs)
    return place


def _pass_over(epochs: EpochIterator, executions: Iterator[Any]) -> None:
    """Advance the data to where a whole epoch of training leaves it."""
    ends_with_epoch = epochs.steps_per_epoch is None and epochs.num_batches is not None
    with epochs.catch_stop_iteration():
        for number, (*_, iterator) in enumerate(executions):
            # Keras drops the iterator at the end of an epoch, so starting it is enough.
            if number == 0 or not ends_with_epoch:
                for _ in range(epochs.steps_per_execution):
                    next(iterator)


def _has(iterator: Iterator[object], batches: int) -> bool:
    """Read so many batches, and return whether there are as many."""
    return sum(1 for _ in itertools.islice(iterator, batches)) == batches


def _in_executions(
    epochs: EpochIterator, steps: Iterator[Any], pace: StepsPerExecution, skipped: int
) -> Iterator[Any]:
    """Combine single steps of an epoch into executions, after ``skipped`` that were already taken.

    A step is (step, iterator) up to Keras 3.10, (first step, last step, iterator) later. Never request one
    beyond the end before the data of the earlier steps is read: the generator then restarts the data.
    """
    left = (epochs.steps_per_epoch or seams.NUM_BATCHES.of(epochs) or float("inf")) - skipped
    while left > 0:
        pace.granted = int(min(pace.steps, max(1, left - 1) if pace.last_alone else left))
        left -= pace.granted
        first = last = next(steps, None)
        for _ in range(pace.granted - 1):
            last = next(steps, None) or last
        if first is None or last is None:
            return
        yield first if len(first) == 2 else (first[0], last[1], last[2])
    # Exhaust the generator, so that Keras ends the epoch.
    yield from steps

"""What the workers of a training with parameter servers have: a data set of their own, and a loop of steps.

A loop occupies its worker's thread in the coordinator and takes its steps from a queue in this module. This
can assign a step to a specific worker, which ``ClusterCoordinator.schedule`` can't. If a worker is lost,
ClusterCoordinator notices it and the step is returned; the loop resumes when the worker comes back.
"""

from __future__ import annotations

import queue
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from ...errors import DataError, WorkerError
from ...keras_compat import seams
from ...keras_compat.rows import attached_pipeline
from ...options.hints import Hint, Launch
from ...words import Code, Words

DatasetFunction: TypeAlias = Callable[[tf.distribute.InputContext], tf.data.Dataset]
#: Worker, step (-1 for any), and report of a finished step; None if the worker is lost.
Result = tuple[int, int, npt.NDArray[np.float64] | None]
_Iterator = Iterator[object]

_LOOK_SECONDS = 0.5


def worker_datasets(
    dataset_fn: DatasetFunction | tf.data.Dataset, workers: int, *, together: bool, done: int = 0
) -> list[tf.types.experimental.ConcreteFunction]:
    """Trace one function per worker that makes the worker's data set when called on the worker.

    With ``together``, the workers' batches of a step form one global batch (synchronous updates). The data of
    ``done`` steps of all workers is skipped. Raises DataError unless ``dataset_fn`` is a data set of
    tfmuster, or returns a data set.
    """
    passed = done if together else -(-done // workers)
    traced = []
    for worker in range(workers):
        make = _dataset_maker(dataset_fn, worker, workers, together, passed)
        with warnings.catch_warnings():
            # Ignore a warning about options that are read early: they do not change afterwards.
            warnings.filterwarnings("ignore", "To make it possible to preserve tf.data options")
            traced.append(tf.function(make, autograph=False).get_concrete_function())
    return traced


def _dataset_maker(
    dataset_fn: DatasetFunction | tf.data.Dataset, worker: int, workers: int, together: bool, passed: int
) -> Callable[[], tf.data.Dataset]:
    """Return a function that makes one worker's data set without the steps that are past."""
    if (pipeline := attached_pipeline(dataset_fn)) is not None:
        if together:
            return lambda: pipeline(worker, workers, skip=passed)
        return lambda: pipeline(every=(worker, workers), skip=passed)
    if not callable(dataset_fn):
        raise _not_a_function(type(dataset_fn).__name__)
    context = tf.distribute.InputContext(
        num_input_pipelines=workers, input_pipeline_id=worker, num_replicas_in_sync=workers
    )

    def make() -> tf.data.Dataset:
        dataset = dataset_fn(context)
        if not isinstance(dataset, tf.data.Dataset):
            raise _not_a_function(f"a function that returns {type(dataset).__name__}")
        dataset = dataset.repeat()
        return dataset.skip(passed) if passed else dataset

    return make


def _not_a_function(found: str) -> DataError:
    return DataError(
        "dataset_fn must be a function that returns a tf.data.Dataset, because each worker makes its own.",
        found=found,
        fix=Words(
            "{} of {}; or a data set from {}",
            Code(
                "dataset_fn=lambda context: ..., with context.input_pipeline_id",
                "dataset_fn = function(context) ..., with context$input_pipeline_id",
            ),
            Code("context.num_input_pipelines", "context$num_input_pipelines"),
            Code("tfmuster.batches()", "batches()"),
        ),
        reason="dataset-fn",
    )


class WorkerLoops:
    """The workers of a job and the steps assigned to them.

    `make_iterator` is called with each worker's index, and `step` with its result and the index; it returns
    the report of a step.
    """

    def __init__(
        self,
        strategy: tf.distribute.ParameterServerStrategy,
        workers: int,
        make_iterator: Callable[[int], _Iterator],
        step: Callable[[_Iterator, int], npt.NDArray[np.float64]],
    ) -> None:
        self._make_iterator, self._step = make_iterator, step
        self._changed = threading.Condition()
        self._free = 0
        self._assigned: list[list[int]] = [[] for _ in range(workers)]
        self._events: queue.Queue[tuple[int, int, npt.NDArray[np.float64] | BaseException]] = queue.Queue()
        self._stopped = False
        self.alive = set(range(workers))
        self.lost: dict[int, BaseException] = {}
        self._coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        for _ in range(workers):
            # The public `schedule` takes only functions that run wholly on a worker; a loop waits here.
            seams.COORDINATOR_CLUSTER.of(self._coordinator).schedule(self._loop, None, None)

    def give_any(self, steps: int) -> None:
        """Add this many steps, each for whichever worker is free."""
        with self._changed:
            self._free += steps
            self._changed.notify_all()

    def give(self, worker: int, step: int) -> None:
        """Assign one step to one worker."""
        with self._changed:
            self._assigned[worker].append(step)
            self._changed.notify_all()

    def results(self) -> Iterator[Result]:
        """Yield the result of each finished step, without end. A lost worker is removed from `alive`.

        Raises WorkerError if no worker is left, and what a step raised whose worker is not lost.
        """
        while True:
            try:
                worker, step, report = self._events.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                # Raises errors from elsewhere in ClusterCoordinator.
                self._coordinator.done()
                continue
            if isinstance(report, BaseException):
                if not _is_loss(report):
                    raise report
                self.alive.discard(worker)
                self.lost[worker] = report
                if not self.alive:
                    raise WorkerError(
                        "No worker is left to train on.",
                        found=f"the last one, worker {worker}, is lost",
                        fix=Words(
                            "read the workers' logs; `{}` restarts the job",
                            Launch((Hint("max_restarts"),), script=None),
                        ),
                        task=f"worker {worker}",
                        exit_code=None,
                    ) from report
                yield worker, step, None
            else:
                self.alive.add(worker)
                yield worker, step, report

    def stop(self) -> None:
        """Stop the loops."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def _loop(self) -> None:
        worker = int(tf.DeviceSpec.from_string(tf.constant(0).device).task)
        step = None
        try:
            if self._stopped:
                return
            iterator = self._make_iterator(worker)
            while (step := self._take(worker)) is not None:
                self._events.put((worker, step, self._step(iterator, worker)))
        except BaseException as error:
            with self._changed:
                if step == -1:
                    # Let another worker do it.
                    self._free += 1
                    self._changed.notify_all()
            self._events.put((worker, -1 if step is None else step, error))
            raise

    def _take(self, worker: int) -> int | None:
        """Return the next step for a worker, -1 for an unassigned one; None when the loops must stop."""
        assigned = self._assigned[worker]
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or assigned or self._free)
            if self._stopped:
                return None
            if assigned:
                # A spare worker that was late skips earlier steps.
                step = assigned.pop()
                assigned.clear()
                return step
            self._free -= 1
            return -1


def _is_loss(error: BaseException) -> bool:
    """Return whether an error means only that its worker is lost."""
    gone = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError)
    text = str(error)
    return isinstance(error, gone) and "/job:worker" in text and "/job:ps" not in text

"""Run one loop per worker with TensorFlow's ClusterCoordinator.

A loop occupies its worker's thread in the coordinator and takes its steps from a queue in this module. This
can assign a step to a specific worker, which ``ClusterCoordinator.schedule`` can't. If a worker is lost,
ClusterCoordinator notices it and the step is returned; the loop resumes when the worker comes back.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

from ...errors import WorkerError
from ...keras_compat import seams
from ...options.hints import Hint, Launch
from ...words import Words

_LOOK_SECONDS = 0.5


class WorkerLoops:
    """The workers of a job and the steps assigned to them.

    Parameters
    ----------
    strategy : tf.distribute.ParameterServerStrategy
        Strategy of this process.
    workers : int
        Number of its workers.
    make_iterator : callable
        Called on worker ``i`` with ``i``; returns the worker's iterator.
    step : callable
        Called on a worker with its iterator and its index; returns the report of the step.
    """

    def __init__(
        self,
        strategy: Any,
        workers: int,
        make_iterator: Callable[[int], Any],
        step: Callable[[Any, int], Any],
    ) -> None:
        import tensorflow as tf

        self._make_iterator, self._step = make_iterator, step
        self._changed = threading.Condition()
        self._free = 0
        self._given: list[list[int]] = [[] for _ in range(workers)]
        self._events: queue.Queue[tuple[int, int, Any]] = queue.Queue()
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
            self._given[worker].append(step)
            self._changed.notify_all()

    def results(self) -> Iterator[tuple[int, int, Any]]:
        """Yield worker, step (-1 for any), and report of each finished step, without end.

        A lost worker is removed from `alive`, and its report is None.

        Raises
        ------
        WorkerError
            No worker is left.
        Exception
            A step raised it, and its worker is not lost.
        """
        while True:
            try:
                worker, step, report = self._events.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                # Raises errors from elsewhere in ClusterCoordinator.
                self._coordinator.done()
                continue
            if isinstance(report, BaseException):
                if not is_loss(report):
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
                report = None
            else:
                self.alive.add(worker)
            yield worker, step, report

    def stop(self) -> None:
        """Stop the loops."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def _loop(self) -> None:
        import tensorflow as tf

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
        given = self._given[worker]
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or given or self._free)
            if self._stopped:
                return None
            if given:
                # A spare worker that was late skips earlier steps.
                step = given.pop()
                given.clear()
                return step
            self._free -= 1
            return -1


def is_loss(error: BaseException) -> bool:
    """Return whether an error means only that its worker is lost."""
    import tensorflow as tf

    gone = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError)
    text = str(error)
    return isinstance(error, gone) and "/job:worker" in text and "/job:ps" not in text

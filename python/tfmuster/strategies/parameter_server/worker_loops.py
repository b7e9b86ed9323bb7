"""One loop on each worker, kept running by TensorFlow's ClusterCoordinator.

A loop occupies its worker's thread in the coordinator. It takes what it is to do from here, so a step can be
given to a certain worker, which ``ClusterCoordinator.schedule`` does not offer. If a worker is lost,
ClusterCoordinator takes note, the step goes back, and the loop goes on where the worker comes back.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

from ...errors import WorkerError

_LOOK_SECONDS = 0.5


class WorkerLoops:
    """The workers of a job, and what they do now.

    Parameters
    ----------
    strategy : tf.distribute.ParameterServerStrategy
        Of this process.
    workers : int
        How many workers it has.
    make_iterator : callable
        Called on worker ``i`` with ``i``: its iterator.
    step : callable
        Called on a worker with its iterator and its number: what to report.
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
            # The public `schedule` takes functions that run wholly on a worker, and these wait here.
            self._coordinator._cluster.schedule(self._loop, None, None)

    def give_any(self, steps: int) -> None:
        """Have so many steps done, each by whichever worker is free."""
        with self._changed:
            self._free += steps
            self._changed.notify_all()

    def give(self, worker: int, step: int) -> None:
        """Have one worker do one step."""
        with self._changed:
            self._given[worker].append(step)
            self._changed.notify_all()

    def results(self) -> Iterator[tuple[int, int, Any]]:
        """Worker, step (-1 for any) and report of each step as it is done; without end.

        A worker that is lost is taken out of `alive`, and comes as a report of None.

        Raises
        ------
        WorkerError
            No worker is left.
        Exception
            What a step has raised, if that is not the loss of its worker.
        """
        while True:
            try:
                worker, step, report = self._events.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                # Raises what went wrong elsewhere in ClusterCoordinator.
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
                        found=f"the last one, worker {worker}, is gone",
                        fix="see why they ended; `tfmuster launch --max-restarts` starts all again",
                        task=f"worker {worker}",
                        exit_code=None,
                    ) from report
                report = None
            else:
                self.alive.add(worker)
            yield worker, step, report

    def stop(self) -> None:
        """Let the loops end."""
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
                    # Another worker is to do it.
                    self._free += 1
                    self._changed.notify_all()
            self._events.put((worker, -1 if step is None else step, error))
            raise

    def _take(self, worker: int) -> int | None:
        """The next step for a worker, -1 for any; None when there is nothing more to come."""
        given = self._given[worker]
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or given or self._free)
            if self._stopped:
                return None
            if given:
                # A spare worker that was late has missed the earlier ones.
                step = given.pop()
                given.clear()
                return step
            self._free -= 1
            return -1


def is_loss(error: BaseException) -> bool:
    """Whether an error says that the worker it comes from is gone, and nothing else."""
    import tensorflow as tf

    gone = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError)
    text = str(error)
    return isinstance(error, gone) and "/job:worker" in text and "/job:ps" not in text

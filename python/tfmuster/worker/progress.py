"""The Keras callbacks that every ``fit`` of a worker gets, even if the program does not import tfmuster."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..cluster.tf_config import is_chief
from ..collectives import Times, current_group
from ..environment import RUN_DIR_VARIABLE, TRIAL_STEPS_VARIABLE
from ..system.activity import ACTIVITY
from ..tracking.live.states import State, own_state_path, say_state
from ..tracking.record.layout import write_json
from ..tracking.record.lines import append_metrics, next_fit, numbers

if TYPE_CHECKING:
    import keras

#: Shortest time between two reports of steps, in seconds.
_EVERY_SECONDS = 1.0


class Shares:
    """Shares of a span of time that the sums over the workers took in this process."""

    def __init__(self) -> None:
        self._begin: tuple[float, Times] | None = None

    def restart(self, now: float) -> None:
        """Begin the span. ``now`` is in seconds, as ``time.monotonic()``."""
        group = current_group()
        self._begin = None if group is None else (now, group.times())

    def until(self, now: float) -> dict[str, Any]:
        """Return the fields of a state; none if nothing was summed here."""
        group = current_group()
        if self._begin is None or group is None or now <= self._begin[0]:
            return {}
        since, before = self._begin
        times, seconds = group.times(), now - since
        if times.operations == before.operations:
            return {}
        waited = [end - begin for begin, end in zip(before.late, times.late, strict=True)]
        longest = max(range(len(waited)), key=waited.__getitem__)
        return {
            "sum_share": min(1.0, (times.seconds - before.seconds) / seconds),
            "wait_share": min(1.0, (times.waited - before.waited) / seconds),
            "waits_for": group.names[longest] if waited[longest] > 0 else "",
        }


def progress_callback(images_per_step: int | None = None) -> list[keras.callbacks.Callback]:
    """Make a Keras callback that records epoch, step, loss, and speed, at most once per second.

    With `images_per_step`, of all workers together, the speed is in images/s, otherwise in steps/s. Outside
    of a job, where nothing reads the progress, the list is empty.
    """
    if own_state_path() is None:
        return []
    import keras

    from ..keras_compat.process import keras_backend
    from .facts import note_machine, note_training

    class Progress(keras.callbacks.Callback):  # type: ignore[misc]
        # Lets Keras call this in another thread and continue with the next step.
        async_safe = True
        notes_progress = True
        needs_batches = False

        def __init__(self) -> None:
            super().__init__()
            self._lock = threading.Lock()
            self._next = 0.0
            self._fit = self._epoch = 0
            self._first: tuple[int, float] | None = None
            self._shares = Shares()
            self._speeds: dict[str, Any] = {}
            self._last: dict[str, Any] = {}

        def on_train_begin(self, logs: Mapping[str, float] | None = None) -> None:
            # `train_mnist` writes its metrics itself.
            if not images_per_step:
                self._fit = next_fit()
            if is_chief():
                note_training(self.model, images_per_step)
            if keras_backend() == "jax":
                note_machine()
            # The first step builds the graph, which can take long.
            say_state(State("tracing"))
            ACTIVITY.at_next("traced", lambda: say_state(State("first step")))

        def on_epoch_begin(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
            self._epoch, self._first = epoch + 1, None

        def on_train_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
            with self._lock:
                now = time.monotonic()
                # Leave the first step out of the speed, because it may have built the graph.
                if self._first is None:
                    # A later graph is not that of the first step, such as that of a validation.
                    ACTIVITY.at_next()
                    self._first = batch, now
                    self._shares.restart(now)
                first, since = self._first
                speed = (batch - first) / (now - since) if batch > first and now > since else None
                self._speeds = {
                    "steps_per_second": speed,
                    "images_per_second": speed * images_per_step if speed and images_per_step else None,
                }
                if now < self._next:
                    return
                self._next = now + _EVERY_SECONDS
            say_state(
                State(
                    "training",
                    epoch=self._epoch,
                    epochs=self._total("epochs"),
                    step=batch + 1,
                    steps=self._total("steps"),
                    metrics=numbers(logs or {}),
                    **self._speeds,
                    **self._shares.until(now),
                )
            )

        def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
            self._last = {**self._speeds, **self._shares.until(time.monotonic())}
            if is_chief() and not images_per_step:
                shown = (self.params or {}).get("verbose") not in (0, None)
                append_metrics(self._fit, epoch + 1, logs or {}, shown=shown)

        def on_train_end(self, logs: Mapping[str, float] | None = None) -> None:
            say_state(State("trained", **self._last))

        def _total(self, name: str) -> int | None:
            total = (self.params or {}).get(name)
            # A program may pass a NumPy number, which JSON does not accept.
            return int(total) if total else None

    return [Progress()]


#: Steps before the measured ones, in which graphs are built and the steps per execution are chosen.
_WARM_UP_STEPS = 40


def trial_callback() -> list[keras.callbacks.Callback]:
    """Return the callback that measures some steps and then ends the process; nothing if this is no trial.

    :mod:`tfmuster.diagnostics.tuning` sets ``TFMUSTER_TRIAL_STEPS``, and reads what the callback writes.
    """
    steps = int(os.environ.get(TRIAL_STEPS_VARIABLE) or 0)
    if not steps:
        return []
    import keras

    class Trial(keras.callbacks.Callback):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self._done = self._measured = 0
            self._seconds = 0.0
            self._last: tuple[int, float] | None = None
            self._shares = Shares()

        def on_epoch_begin(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
            # Don't count the time between epochs.
            self._last = None

        def on_train_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
            now = time.perf_counter()
            if self._last is not None:
                taken = batch - self._last[0]
                self._done += taken
                if self._done > _WARM_UP_STEPS:
                    self._measured += taken
                    self._seconds += now - self._last[1]
                else:
                    self._shares.restart(time.monotonic())
            self._last = batch, now
            # All workers run the same steps, so all end after the same one.
            if self._measured >= steps:
                self._end()

        def on_train_end(self, logs: Mapping[str, float] | None = None) -> None:
            if self._measured:
                self._end()

        def _end(self) -> None:
            from ..rendezvous.task.join import report_end

            path = Path(os.environ[RUN_DIR_VARIABLE], f"trial-{os.getpid()}.json")
            speed = {"seconds_per_step": self._seconds / self._measured, "steps": self._measured}
            write_json(path, {**speed, **self._shares.until(time.monotonic())})
            report_end()
            sys.stdout.flush()
            sys.stderr.flush()
            # Don't wait for what the program does after training.
            os._exit(0)

    return [Trial()]


def saving_callback(present: Sequence[keras.callbacks.Callback]) -> list[keras.callbacks.Callback]:
    """Return the callback that writes a checkpoint on a shutdown signal, for a program without its own.

    Such a program is one that tfmuster distributes, and `present` are the callbacks of its ``fit``.
    """
    if ACTIVITY.place().get("call") != "fit":
        return []
    from keras.callbacks import BackupAndRestore

    from ..training.checkpoints import job_checkpoints

    if any(isinstance(callback, BackupAndRestore) for callback in present):
        return []
    return job_checkpoints(present)

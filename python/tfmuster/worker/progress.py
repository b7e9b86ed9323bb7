"""The Keras callback that reports how far a worker has come."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

from ..cluster.tf_config import is_chief
from ..collectives import Times, current_group
from ..tracking.live.states import State, _own_path, say_state
from ..tracking.record.metrics import append_metrics, next_fit, numbers

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


def progress_callback(images_per_step: int | None = None) -> list[Any]:
    """Make a Keras callback that records epoch, step, loss, and speed, at most once per second.

    Parameters
    ----------
    images_per_step : int, optional
        Images per step on all workers. With it, the speed is in images/s, otherwise in steps/s.

    Returns
    -------
    list of keras.callbacks.Callback
        Empty outside of a job, where nothing reads the progress.
    """
    if _own_path() is None:
        return []
    import keras

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

        def on_train_begin(self, logs: Any = None) -> None:
            # `train_mnist` writes its metrics itself.
            if not images_per_step:
                self._fit = next_fit()
            # The first step builds the graph, which can take long.
            say_state(State("tracing"))

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self._epoch, self._first = epoch + 1, None

        def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
            with self._lock:
                now = time.monotonic()
                # Leave the first step out of the speed, because it may have built the graph.
                if self._first is None:
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

        def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
            self._last = {**self._speeds, **self._shares.until(time.monotonic())}
            if is_chief() and not images_per_step:
                shown = (self.params or {}).get("verbose") not in (0, None)
                append_metrics(self._fit, epoch + 1, logs or {}, shown=shown)

        def on_train_end(self, logs: Any = None) -> None:
            say_state(State("trained", **self._last))

        def _total(self, name: str) -> int | None:
            total = (self.params or {}).get(name)
            # A program may pass a NumPy number, which JSON does not accept.
            return int(total) if total else None

    return [Progress()]

"""The Keras callback that reports how far a worker has come."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

from ..cluster.tf_config import is_chief
from ..runs.metrics import append_metrics, numbers
from ..runs.states import State, _own_path, say_state

#: Shortest time between two reports of steps, in seconds.
_EVERY_SECONDS = 1.0


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
            self._epoch = 0
            self._first: tuple[int, float] | None = None

        def on_train_begin(self, logs: Any = None) -> None:
            # The first step builds the graph, which can take long.
            say_state(State("tracing"))

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self._epoch, self._first = epoch + 1, None

        def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
            with self._lock:
                now = time.monotonic()
                # Leave the first step out of the speed, because it may have built the graph.
                self._first = first, since = self._first or (batch, now)
                if now < self._next:
                    return
                self._next = now + _EVERY_SECONDS
            speed = (batch - first) / (now - since) if batch > first else None
            say_state(
                State(
                    "training",
                    epoch=self._epoch,
                    epochs=self._total("epochs"),
                    step=batch + 1,
                    steps=self._total("steps"),
                    metrics=numbers(logs or {}),
                    steps_per_second=speed,
                    images_per_second=speed * images_per_step if speed and images_per_step else None,
                )
            )

        def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
            # `train_mnist` writes its metrics itself.
            if is_chief() and not images_per_step:
                shown = (self.params or {}).get("verbose") not in (0, None)
                append_metrics(epoch + 1, logs or {}, shown=shown)

        def on_train_end(self, logs: Any = None) -> None:
            say_state(State("trained"))

        def _total(self, name: str) -> int | None:
            total = (self.params or {}).get(name)
            # A program may pass a NumPy number, which JSON does not accept.
            return int(total) if total else None

    return [Progress()]

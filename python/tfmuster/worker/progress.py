"""The Keras callback that reports how far a worker has come."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

from ..cluster.tf_config import is_chief
from ..runs.metrics import append_metrics, numbers
from ..runs.states import _own_path, say_state

#: A step more is no news within this time, seconds.
_EVERY_SECONDS = 1.0


def progress_callback(images_per_step: int | None = None) -> list[Any]:
    """A Keras callback that notes epoch, step, loss and speed, at most once a second.

    Parameters
    ----------
    images_per_step : int, optional
        Images of a step on all workers; with it the speed is in images/s, else in steps/s.

    Returns
    -------
    list of keras.callbacks.Callback
        Empty where nobody would read it.
    """
    if _own_path() is None:
        return []
    import keras

    class Progress(keras.callbacks.Callback):  # type: ignore[misc]
        # Keras calls it in another thread then, and goes on with the next step.
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
            # The first step, which builds the graph, may take long.
            say_state("tracing")

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self._epoch, self._first = epoch + 1, None

        def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
            with self._lock:
                now = time.monotonic()
                # The speed is that of the steps after the first, which may have built the graph.
                self._first = first, since = self._first or (batch, now)
                if now < self._next:
                    return
                self._next = now + _EVERY_SECONDS
            speed = self._speed((batch - first) / (now - since)) if batch > first else ""
            epoch, step = self._of(self._epoch, "epochs"), self._of(batch + 1, "steps")
            metrics = "".join(f"  {name} {value:.4f}" for name, value in _first(logs or {}))
            say_state(f"training  epoch {epoch}  step {step}{metrics}{speed}")

        def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
            # `train_mnist` writes them itself.
            if is_chief() and not images_per_step:
                shown = (self.params or {}).get("verbose") not in (0, None)
                append_metrics(epoch + 1, logs or {}, shown=shown)

        def on_train_end(self, logs: Any = None) -> None:
            say_state("trained")

        def _speed(self, steps: float) -> str:
            return (
                f"  {steps * images_per_step:,.0f} images/s" if images_per_step else f"  {steps:.1f} steps/s"
            )

        def _of(self, number: int, name: str) -> str:
            total = (self.params or {}).get(name)
            return f"{number}/{total}" if total else str(number)

    return [Progress()]


def _first(logs: Mapping[str, Any]) -> list[tuple[str, float]]:
    """The loss and the first metric."""
    return sorted(numbers(logs).items(), key=lambda item: item[0] != "loss")[:2]

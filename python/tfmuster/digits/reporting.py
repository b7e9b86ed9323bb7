"""Report on a training while it runs: print lines, and write metrics to the run directory."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ..tracking.record.lines import append_metrics, next_fit

if TYPE_CHECKING:
    from .plan import Plan
    from .result import TrainingResult


def _say(text: str) -> None:
    print(text, flush=True)


def say_plan(model: str, recipe: str, digits: Any, plan: Plan, about: str) -> None:
    """Print the data set, the model, and the numbers of the training."""
    _say(digits.describe())
    _say(
        f"model: {model}, {recipe} recipe; {plan.epochs} epochs of {plan.steps_per_epoch} steps; "
        f"{plan.batch_size} images per replica x {plan.global_batch_size // plan.batch_size} = "
        f"global batch {plan.global_batch_size}"
    )
    if about:
        _say(about)


def say_traffic(network: Any, strategy: Any) -> None:
    """Print how many bytes of gradients each worker sends per step."""
    from ..keras_compat import bytes_per_step, gradient_dtype, multi_worker

    if multi_worker(strategy):
        megabytes = bytes_per_step(network, strategy) / 1e6
        _say(f"each worker exchanges {megabytes:.2f} MB of gradients a step, as {gradient_dtype(strategy)}")


def say_shard(strategy: Any, rows: int, plan: Plan) -> None:
    """Print which rows this worker reads."""
    from ..keras_compat import multi_worker, worker_of
    from ..training.batches import shard_description

    worker, workers = worker_of(strategy) if multi_worker(strategy) else (0, 1)
    local = strategy.num_replicas_in_sync // workers
    _say(shard_description(rows, plan.global_batch_size, worker, workers, replicas_per_worker=local))


def say_result(result: TrainingResult) -> None:
    """Print the result of the training."""
    _say(f"test accuracy {result.test_accuracy:.4f}, loss {result.test_loss:.4f}")
    if result.model_path is not None:
        _say(f"model saved in {result.model_path}")


def reporters(plan: Plan, *, enabled: bool, printing: bool) -> Iterable[Any]:
    """Make callbacks that print a line per epoch and append it to the run directory's metrics."""
    if not enabled:
        return []
    import tensorflow as tf

    class Reporter(tf.keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_begin(self, logs: Any = None) -> None:
            self._fit = next_fit()

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self._begin = time.perf_counter()
            self._trained = self._begin
            # After a restart the first epoch may be partly done.
            self._step = int(self.model.optimizer.iterations.numpy())

        def on_test_begin(self, logs: Any = None) -> None:
            self._trained = time.perf_counter()

        def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
            now = time.perf_counter()
            end = self._trained if self._trained > self._begin else now
            steps = int(self.model.optimizer.iterations.numpy()) - self._step
            rate = steps * plan.global_batch_size / max(end - self._begin, 1e-9)
            values = {name: float(value) for name, value in (logs or {}).items()}
            append_metrics(self._fit, epoch + 1, values, images_per_second=rate, shown=printing)
            if printing:
                text = "  ".join(f"{name} {value:.4f}" for name, value in values.items())
                speed = f"{rate:,.0f} images/s  {now - self._begin:.1f} s"
                _say(f"epoch {epoch + 1}/{plan.epochs}  {text}  {speed}")

    return [Reporter()]

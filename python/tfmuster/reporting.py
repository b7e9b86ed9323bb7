"""What a training tells while it goes on: lines for the user, metrics for the run directory."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .training import TrainingResult


@dataclass(frozen=True)
class Plan:
    """The numbers of one training, after defaults."""

    batch_size: int
    global_batch_size: int
    epochs: int
    steps_per_epoch: int
    validation_rows: int
    seed: int


def _say(text: str) -> None:
    print(text, flush=True)


def say_plan(model: str, digits: Any, plan: Plan, replicas: int) -> None:
    """What is going to be trained, on what."""
    _say(digits.describe())
    _say(
        f"model: {model}; {plan.epochs} epochs of {plan.steps_per_epoch} steps; "
        f"{plan.batch_size} images per replica x {replicas} = global batch {plan.global_batch_size}"
    )


def say_shard(strategy: Any, rows: int, plan: Plan) -> None:
    """Which rows this worker reads."""
    from .keras_compat import multi_worker, worker_of
    from .sharding import shard_description

    worker, workers = worker_of(strategy) if multi_worker(strategy) else (0, 1)
    local = plan.global_batch_size // plan.batch_size // workers
    _say(shard_description(rows, plan.global_batch_size, worker, workers, replicas_per_worker=local))


def say_result(result: TrainingResult) -> None:
    """How it went."""
    _say(f"test accuracy {result.test_accuracy:.4f}, loss {result.test_loss:.4f}")
    if result.model_path is not None:
        _say(f"model saved in {result.model_path}")


def reporters(plan: Plan, *, enabled: bool, printing: bool) -> Iterable[Any]:
    """Callbacks that print a line per epoch and append it to the run directory's metrics."""
    if not enabled:
        return []
    import tensorflow as tf

    class Reporter(tf.keras.callbacks.Callback):  # type: ignore[misc]
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self._begin = time.perf_counter()
            self._trained = self._begin
            # After a restart the first epoch may be half done.
            self._step = int(self.model.optimizer.iterations.numpy())

        def on_test_begin(self, logs: Any = None) -> None:
            self._trained = time.perf_counter()

        def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
            now = time.perf_counter()
            end = self._trained if self._trained > self._begin else now
            steps = int(self.model.optimizer.iterations.numpy()) - self._step
            rate = steps * plan.global_batch_size / max(end - self._begin, 1e-9)
            values = {name: float(value) for name, value in (logs or {}).items()}
            _append_metrics({"epoch": epoch + 1, "time": time.time(), "images_per_second": rate, **values})
            if printing:
                text = "  ".join(f"{name} {value:.4f}" for name, value in values.items())
                speed = f"{rate:,.0f} images/s  {now - self._begin:.1f} s"
                _say(f"epoch {epoch + 1}/{plan.epochs}  {text}  {speed}")

    return [Reporter()]


def _append_metrics(line: Mapping[str, Any]) -> None:
    """One line in the run directory of the job that this process belongs to, if it belongs to one."""
    if folder := os.environ.get("TFMUSTER_RUN_DIR"):
        import orjson

        try:
            with open(Path(folder) / "metrics.jsonl", "ab") as file:
                file.write(orjson.dumps(dict(line)) + b"\n")
        except OSError as error:
            print(f"can't write the metrics: {error}", file=sys.stderr)

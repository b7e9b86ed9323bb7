"""Report on a training: lines and metrics while it runs, and its result."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from ..keras_compat.choices import GRADIENT_DTYPE
from ..keras_compat.process import multi_worker, worker_of
from ..keras_compat.rows import part_of
from ..keras_compat.sums.gradients import bytes_per_step
from ..tracking.record.lines import append_metrics, next_fit
from .datasets import Digits
from .plan import Plan

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

_say = partial(print, flush=True)


@dataclass(frozen=True)
class TrainingResult:
    """The result of a training.

    Attributes
    ----------
    history : dict of str to list of float
        One value per epoch for ``loss``, ``accuracy``, and, with validation data, ``val_loss`` and
        ``val_accuracy``. The values cover all workers and are the same on each of them.
    test_accuracy, test_loss : float
        Accuracy (a share from 0 to 1) and loss on the test digits.
    model : keras.Model
        The trained model, in this session.
    model_path : str or None
        Path of the model that the chief saved.
    dataset : str
        Description of the data set.
    batch_size, global_batch_size, replicas : int
        Images per replica and step, images per step on all replicas together, number of replicas.
    seconds : float
        Wall time of the training in seconds, without loading data and without the test.
    """

    history: dict[str, list[float]]
    test_accuracy: float
    test_loss: float
    model: keras.Model = field(repr=False)
    model_path: str | None
    dataset: str
    batch_size: int
    global_batch_size: int
    replicas: int
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Return all fields except the model, ready for JSON."""
        return {name: value for name, value in vars(self).items() if name != "model"}


def say_plan(model: str, recipe: str, digits: Digits, plan: Plan, updates: str) -> None:
    """Print the data set, the model, the numbers of the training, and how the weights are updated."""
    _say(digits.describe())
    _say(
        f"model: {model}, {recipe} recipe; {plan.epochs} epochs of {plan.steps_per_epoch} steps; "
        f"{plan.batch_size} images per replica x {plan.global_batch_size // plan.batch_size} = "
        f"global batch {plan.global_batch_size}"
    )
    if updates:
        _say(updates)


def say_traffic(network: keras.Model, strategy: tf.distribute.Strategy) -> None:
    """Print how many bytes of gradients each worker sends per step."""
    if multi_worker(strategy):
        megabytes = bytes_per_step(network, strategy) / 1e6
        dtype = GRADIENT_DTYPE.of(strategy)
        _say(f"each worker exchanges {megabytes:.2f} MB of gradients a step, as {dtype}")


def say_shard(strategy: tf.distribute.Strategy, rows: int, plan: Plan) -> None:
    """Print which rows this worker reads."""
    worker, workers = worker_of(strategy) if multi_worker(strategy) else (0, 1)
    local = strategy.num_replicas_in_sync // workers
    _say(shard_description(rows, plan.global_batch_size, worker, workers, replicas_per_worker=local))


def shard_description(
    rows: int, global_batch: int, worker: int, workers: int, *, replicas_per_worker: int = 1
) -> str:
    """Describe in one line which of ``rows`` rows the worker of this index reads."""
    replicas = workers * replicas_per_worker

    def span(size: int) -> str:
        start = part_of(size, worker * replicas_per_worker, replicas)[0]
        stop = part_of(size, (worker + 1) * replicas_per_worker - 1, replicas)[1]
        return f"rows {start}-{stop - 1}" if stop > start else "no rows"

    text = f"worker {worker} of {workers} reads {span(global_batch)} of each global batch of {global_batch}"
    last = rows % global_batch
    return f"{text}, and {span(last)} of the last one of {last}" if last else text


def say_result(result: TrainingResult) -> None:
    """Print the result of the training."""
    _say(f"test accuracy {result.test_accuracy:.4f}, loss {result.test_loss:.4f}")
    if result.model_path is not None:
        _say(f"model saved in {result.model_path}")


def epoch_reporter(plan: Plan, *, printing: bool) -> keras.callbacks.Callback:
    """Make a callback that appends each epoch to the run directory's metrics, and may print it as a line."""
    import tensorflow as tf

    class Reporter(tf.keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_begin(self, logs: object = None) -> None:
            self._fit = next_fit()

        def on_epoch_begin(self, epoch: int, logs: object = None) -> None:
            self._begin = time.perf_counter()
            self._trained = self._begin
            # After a restart the first epoch may be partly done.
            self._step = int(self.model.optimizer.iterations.numpy())

        def on_test_begin(self, logs: object = None) -> None:
            self._trained = time.perf_counter()

        def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
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

    return Reporter()

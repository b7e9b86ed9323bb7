"""What a training tells while it goes on: lines for the user, metrics for the run directory."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .planning import Plan
    from .training import TrainingResult

#: The chief's line per epoch, in the run directory.
METRICS = "metrics.jsonl"
#: What else is in such a line.
NO_METRICS = ("epoch", "time", "shown")
_NAN = float("nan")


def _say(text: str) -> None:
    print(text, flush=True)


def say_plan(model: str, digits: Any, plan: Plan, about: str) -> None:
    """What is going to be trained, on what."""
    _say(digits.describe())
    _say(
        f"model: {model}; {plan.epochs} epochs of {plan.steps_per_epoch} steps; "
        f"{plan.batch_size} images per replica x {plan.global_batch_size // plan.batch_size} = "
        f"global batch {plan.global_batch_size}"
    )
    if about:
        _say(about)


def say_traffic(network: Any, strategy: Any) -> None:
    """What the workers send each other for the gradients."""
    from .keras_compat import bytes_per_step, gradient_dtype, multi_worker

    if multi_worker(strategy):
        megabytes = bytes_per_step(network, strategy) / 1e6
        _say(f"each worker sends {megabytes:.2f} MB of gradients a step, as {gradient_dtype(strategy)}")


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
            append_metrics(epoch + 1, values, images_per_second=rate, shown=printing)
            if printing:
                text = "  ".join(f"{name} {value:.4f}" for name, value in values.items())
                speed = f"{rate:,.0f} images/s  {now - self._begin:.1f} s"
                _say(f"epoch {epoch + 1}/{plan.epochs}  {text}  {speed}")

    return [Reporter()]


def append_metrics(
    epoch: int, values: Mapping[str, Any], *, shown: bool, images_per_second: float | None = None
) -> None:
    """One line in the run directory of the job that this process belongs to, if it belongs to one.

    Parameters
    ----------
    epoch : int
        From 1.
    values : mapping
        The metrics, as Keras names them.
    shown : bool
        Whether the program shows them itself.
    images_per_second : float, optional
        The speed of the training, if it is known.
    """
    if folder := os.environ.get("TFMUSTER_RUN_DIR"):
        import orjson

        line: dict[str, Any] = {"epoch": epoch, "time": time.time(), "shown": shown}
        if images_per_second is not None:
            line["images_per_second"] = images_per_second
        line.update(numbers(values))
        try:
            with open(Path(folder) / METRICS, "ab") as file:
                file.write(orjson.dumps(line) + b"\n")
        except OSError as error:
            print(f"can't write the metrics: {error}", file=sys.stderr)


def numbers(values: Mapping[str, Any]) -> dict[str, float]:
    """Those of Keras's metrics that are one number each; a metric of the user's may be anything."""
    found = {}
    for name, value in values.items():
        with contextlib.suppress(TypeError, ValueError):
            found[name] = float(value)
    return found


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """The lines of a run directory; of an epoch that was repeated after a restart, the last."""
    import orjson

    epochs: dict[int, dict[str, Any]] = {}
    with contextlib.suppress(FileNotFoundError):
        for line in (folder / METRICS).read_bytes().splitlines():
            # The last line may be half written, and a program may write lines of its own: a ValueError, too.
            with contextlib.suppress(ValueError):
                said = orjson.loads(line)
                if not isinstance(said, dict):
                    continue
                # JSON has no NaN, which a loss becomes that has diverged.
                values = numbers({name: _NAN if value is None else value for name, value in said.items()})
                values["epoch"] = epoch = int(values.get("epoch", len(epochs) + 1))
                epochs[epoch] = values
    return [values for _, values in sorted(epochs.items())]


def epoch_line(values: Mapping[str, Any]) -> str:
    """One of these lines in words, the loss first and the speed last."""
    names = [name for name in values if name not in (*NO_METRICS, "images_per_second")]
    figures = [f"{name} {values[name]:.4f}" for name in sorted(names, key=lambda name: name != "loss")]
    speed = values.get("images_per_second")
    return "  ".join([f"epoch {values['epoch']}", *figures, *([f"{speed:,.0f} images/s"] if speed else [])])

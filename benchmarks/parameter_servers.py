"""What a slow worker costs with synchronous and with asynchronous updates.

Softmax regression on drawn digits, 3 workers and 1 parameter server on this machine, 100 digits per worker
and step, 150 updates; the last worker takes 50 ms more for each batch. Prints the updates per second of each
kind of updates with and without the slow worker, and the ratios of these. `--csv FILE` also keeps the loss of
each update with the time at which it was applied; vignettes/updates.csv is such a file.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

STEPS, BATCH, SLOW = 150, 100, 0.05
#: Name, updates, replicas_to_aggregate.
KINDS = [("synchronous", "sync", None), ("first 2 of 3", "sync", 2), ("asynchronous", "async", None)]


def train(out: str, updates: str, aggregate: int | None, seconds: float) -> None:
    """Train in one task of the job; the coordinator writes [time, loss] of each update."""
    import tfmuster

    tfmuster.strategy("parameter_server")
    import keras
    import tensorflow as tf
    from tensorflow.python.data.experimental.ops import testing

    digits = tfmuster.synthetic(train=6000, test=1000)

    def dataset_fn(context: Any) -> Any:
        rows = tf.data.Dataset.from_tensor_slices((digits.x_train, digits.y_train))
        own = rows.shard(context.num_input_pipelines, context.input_pipeline_id)
        data = own.shuffle(2000, seed=1).repeat().batch(BATCH)
        last = context.input_pipeline_id == context.num_input_pipelines - 1
        return data.apply(testing.sleep(int(seconds * 1e6))) if last and seconds else data

    class Watch(keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_begin(self, logs: Any = None) -> None:
            self.found: list[tuple[float, float]] = []
            self.sum = 0.0

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            # Keras's loss is the mean over the epoch so far.
            total = logs["loss"] * (batch + 1)
            self.found.append((time.perf_counter(), total - self.sum))
            self.sum = total

    watch = Watch()
    model = tfmuster.mnist_model("softmax", seed=1, learning_rate=0.2, recipe="document")
    tfmuster.ps_fit(
        model,
        dataset_fn,
        1,
        STEPS,
        updates=updates,
        replicas_to_aggregate=aggregate,
        callbacks=[watch],
        verbose=0,
    )
    start = watch.found[0][0]
    Path(out).write_text(json.dumps([[moment - start, loss] for moment, loss in watch.found]))


def run(updates: str, aggregate: int | None, seconds: float) -> list[list[float]]:
    """Run one job; [time in seconds since the first update, loss] of each update."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "found.json")
        given = json.dumps([str(out), updates, aggregate, seconds])
        launch = ["launch", "-q", "--ps", "1", "-n", "3", "--run-dir", f"{folder}/run", __file__, given]
        subprocess.run([sys.executable, "-m", "tfmuster", *launch], check=True, timeout=300)
        found: list[list[float]] = json.loads(out.read_text())
        return found


def main() -> None:
    rows = []
    print(f"{'updates':<14}{'per s':>8}{'with a slow worker':>20}{'ratio':>8}")
    for name, updates, aggregate in KINDS:
        speeds = []
        for seconds in (0.0, SLOW):
            found = run(updates, aggregate, seconds)
            # Without the first tenth, in which the workers get their functions.
            begin = STEPS // 10
            speeds.append((STEPS - 1 - begin) / (found[-1][0] - found[begin][0]))
            rows += [(name, seconds, number + 1, *each) for number, each in enumerate(found)]
        print(f"{name:<14}{speeds[0]:>8.0f}{speeds[1]:>20.0f}{speeds[1] / speeds[0]:>8.2f}", flush=True)
    if "--csv" in sys.argv:
        with open(sys.argv[sys.argv.index("--csv") + 1], "w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["updates", "slow", "step", "seconds", "loss"])
            writer.writerows((*row[:3], f"{row[3]:.3f}", f"{row[4]:.4f}") for row in rows)


if __name__ == "__main__":
    if "TF_CONFIG" in os.environ:
        train(*json.loads(sys.argv[1]))
    else:
        main()

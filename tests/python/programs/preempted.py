"""Train, slowly from a given step on, so that the training can be shut down there.

Usage: preempted.py OUT KIND STEP [SECONDS]; KIND is numpy, generator, executions, epochs or steps (with a
checkpoint after each step). From step STEP on, counted over all epochs, each call at the end of an execution
takes SECONDS (0.2), until there is a file `fast` in the working directory. At that step every worker makes
the file `reached-INDEX` there. With FLOATX=float64, the training has that precision.
"""

import os
import sys
import time
from pathlib import Path

import numpy as np

import tfmuster

print("TensorFlow was", "imported" if "tensorflow" in sys.modules else "not imported", flush=True)
out, kind, slow_from, seconds, *_ = [*sys.argv[1:], "0.2"]
index = tfmuster.current_task().index
strategy = tfmuster.strategy("multi_worker_mirrored")

import keras

keras.config.set_floatx(os.environ.get("FLOATX", "float32"))
#: In the order of a set, which is the same on all workers, and after a restart.
ACTIVATIONS = {"softplus", "tanh", "elu"}
rng = np.random.default_rng(0)
x, y = rng.random((200, 12)).astype("float32"), rng.integers(0, 3, 200)


class Slow(keras.callbacks.Callback):
    needs_batches = False

    def _wait(self):
        mark = Path(f"reached-{index}")
        if int(self.model.optimizer.iterations.numpy()) >= int(slow_from) and not Path("fast").exists():
            mark.touch()
            time.sleep(float(seconds))

    def on_train_batch_end(self, batch, logs=None):
        if kind != "epochs":
            self._wait()

    def on_epoch_end(self, epoch, logs=None):
        if kind == "epochs":
            self._wait()


def batches():
    for first in range(0, 200, 20):
        yield x[first : first + 20], y[first : first + 20]


with strategy.scope():
    model = keras.Sequential(
        [
            keras.Input((12,)),
            keras.layers.Dense(16, activation="relu"),
            *map(keras.layers.Activation, ACTIVATIONS),
            keras.layers.Dropout(0.4),
            keras.layers.Dense(3),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    one = {} if kind == "executions" else {"steps_per_execution": 1}
    model.compile("adam", loss, metrics=["accuracy"], **one)
every = {"epochs": "epoch", "steps": 1}.get(kind)
history = model.fit(
    *((batches(),) if kind == "generator" else (x, y)),
    **({"steps_per_epoch": 10} if kind == "generator" else {"batch_size": 20}),
    epochs=1 if kind == "generator" else 4,
    validation_data=None if kind == "generator" else (x[:50], y[:50]),
    verbose=0,
    callbacks=[tfmuster.checkpoint_callback(every=every), Slow()],
)
np.savez(Path(out, f"final-{index}.npz"), *model.get_weights(), **history.history)

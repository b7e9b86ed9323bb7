"""Train a small smooth network with parameter servers, or in one process, and write what came of it.

Usage: parameter_servers.py OUT OPTIONS...; each OPTIONS is JSON: updates ("" for one process), epochs, steps,
cut (bytes), aggregate, slow (seconds that the last worker takes for a batch), kill ([step, task]), every. A
job trains once for each OPTIONS; cut is that of the first. OUT is a JSON list.
Smooth, because where a ReLU has its kink, a rounding of 1e-8 may turn a gradient.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np

import tfmuster

out, trainings = Path(sys.argv[1]), [json.loads(text) for text in sys.argv[2:]]
if trainings[0]["updates"]:
    strategy = tfmuster.strategy("parameter_server", min_shard_bytes=trainings[0].get("cut"))

import keras
import tensorflow as tf

from tfmuster.training.batches import batches

# The last batch of 200 rows has 20, so with three workers their parts differ.
rng = np.random.default_rng(0)
X = rng.standard_normal((200, 12)).astype("float32")
Y = (X @ rng.standard_normal((12, 3))).argmax(axis=1)


class Kill(keras.callbacks.Callback):
    def __init__(self, step, task):
        super().__init__()
        self.step, self.task, self.count = step, task, 0

    def on_train_batch_end(self, batch, logs=None):
        self.count += 1
        if self.count == self.step:
            status = json.loads(Path(os.environ["TFMUSTER_RUN_DIR"], "status.json").read_text())
            os.kill(status["tasks"][self.task]["pid"], signal.SIGKILL)


class Pace(keras.callbacks.Callback):
    """When steps have ended."""

    def __init__(self):
        super().__init__()
        self.times = []

    def on_train_batch_end(self, batch, logs=None):
        self.times.append(time.perf_counter())


def slow(seconds):
    def of_worker(context):
        from tensorflow.python.data.experimental.ops import testing

        data = tf.data.Dataset.from_tensor_slices((X, Y)).repeat().batch(12)
        last = context.input_pipeline_id == context.num_input_pipelines - 1
        return data.apply(testing.sleep(int(seconds * 1e6))) if last else data

    return of_worker


def train(options):
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [keras.Input((12,)), keras.layers.Dense(40, activation="tanh"), keras.layers.Dense(3)]
    )
    model.compile(
        optimizer=keras.optimizers.SGD(0.05, momentum=0.9),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    pace = Pace()
    callbacks = [pace]
    first = os.environ.get("TFMUSTER_RESTART", "0") == "0"
    if "kill" in options and first:
        callbacks.append(Kill(*options["kill"]))
    if "every" in options:
        callbacks.append(tfmuster.checkpoint_callback(every=options["every"]))
    data = slow(options["slow"]) if "slow" in options else batches(X, Y, 36, seed=5, repeated=True)
    arguments = {
        "epochs": options["epochs"],
        "steps_per_epoch": options["steps"],
        "callbacks": callbacks,
        "validation_data": (X, Y),
        "verbose": 0,
    }
    if updates := options["updates"]:
        history = tfmuster.ps_fit(
            model, data, updates=updates, replicas_to_aggregate=options.get("aggregate"), **arguments
        )
    else:
        history = model.fit(data, **arguments)
    model.save(out.with_suffix(".keras"))
    return {
        "history": history.history,
        "updates": int(model.optimizer.iterations.numpy()),
        "steps": len(pace.times),
        "seconds": pace.times[-1] - pace.times[0],
        "weights": [w.tolist() for w in model.get_weights()],
    }


out.write_text(json.dumps([train(options) for options in trainings]))

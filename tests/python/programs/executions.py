"""Count the executions of fit and evaluate on this worker, and write the weights: executions.py FOLDER."""

import json
import os
import sys
from pathlib import Path

import numpy as np

import tfmuster

folder = Path(sys.argv[1])
worker = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
strategy = tfmuster.strategy("multi_worker_mirrored")

import keras
import tensorflow as tf
from moving import MovingMean
from tensorflow.python.distribute.cross_device_ops import CrossDeviceOps

from tfmuster.collectives import Group

x = np.random.default_rng(0).normal(size=(400, 8)).astype("float32")
y = x.sum(axis=1, keepdims=True)
STEPS = 40  # global batches of 10 rows


eager_reductions = []


def counted(stock):
    """Count the calls of a reduction outside of a graph."""

    def reduce(self, *arguments, **options):
        if tf.executing_eagerly():
            eager_reductions.append(arguments)
        return stock(self, *arguments, **options)

    return reduce


CrossDeviceOps.reduce = counted(CrossDeviceOps.reduce)
Group.sum_tensors = counted(Group.sum_tensors)


class Ends(keras.callbacks.Callback):
    """The last step of each execution, which is all that this callback is told."""

    needs_batches = False

    def __init__(self):
        super().__init__()
        self.train, self.test = [], []

    def on_train_batch_end(self, batch, logs=None):
        self.train.append(batch)

    def on_test_batch_end(self, batch, logs=None):
        self.test.append(batch)


def train(*callbacks, layers=(), **compiled):
    keras.utils.set_random_seed(3)
    with strategy.scope():
        model = keras.Sequential(
            [keras.Input((8,)), keras.layers.Dense(16, "tanh"), *layers, keras.layers.Dense(1)]
        )
        model.compile(keras.optimizers.Adam(0.01), "mse", metrics=["mae"], **compiled)
    ends = Ends()
    eager_reductions.clear()
    history = model.fit(x, y, batch_size=10, epochs=3, verbose=0, callbacks=[ends, *callbacks])
    reductions = len(eager_reductions)
    model.evaluate(x, y, batch_size=10, verbose=0, callbacks=[ends])
    return model, ends, history.history["loss"], reductions


seen = []
found = {}
for name, arguments, options in (
    ("automatic", (), {}),
    (
        "checkpoints",
        (keras.callbacks.ModelCheckpoint(folder / "best.keras"), keras.callbacks.EarlyStopping("loss")),
        {},
    ),
    ("chosen", (), {"steps_per_execution": 1}),
    (
        "per batch",
        (keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: seen.append(batch)),),
        {},
    ),
    ("moving statistics", (), {"layers": [MovingMean()]}),
    ("batch norm", (), {"layers": [keras.layers.BatchNormalization()]}),
    ("batch norm, chosen", (), {"layers": [keras.layers.BatchNormalization()], "steps_per_execution": 1}),
):
    model, ends, losses, reductions = train(*arguments, **options)
    found[name] = {"train": ends.train, "test": ends.test, "loss": losses, "reductions": reductions}
    np.savez(folder / f"{name}-{worker}.npz", *model.get_weights())
found["seen"] = seen
folder.joinpath(f"{worker}.json").write_text(json.dumps(found))

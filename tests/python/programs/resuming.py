"""Train a network with dropout, interrupted or not, and write the final weights of each training.

Usage: resuming.py TRAININGS; a JSON list of [FOLDER, KIND, EVERY, [DIE_AT, ...]], where KIND is numpy,
dataset, repeated or executions. The process plays all its interruptions itself: at each step DIE_AT a new
model starts from the newest checkpoint.
"""

import json
import os
import sys
from pathlib import Path

import numpy as np

import tfmuster

config = json.loads(os.environ.get("TF_CONFIG", "{}"))
worker = config["task"]["index"] if config else 0
strategy = tfmuster.strategy("multi_worker_mirrored" if config else "default")

import keras
import tensorflow as tf

rng = np.random.default_rng(0)
X, Y = rng.random((103, 12)).astype("float32"), rng.integers(0, 3, 103)


class Interrupted(Exception):
    pass


class Interrupt(keras.callbacks.Callback):
    """Raises after the step of this number, counted over all epochs by the optimizer."""

    def __init__(self, at):
        super().__init__()
        self.at = at

    def on_train_batch_end(self, batch, logs=None):
        if int(self.model.optimizer.iterations.numpy()) >= self.at:
            raise Interrupted


def train(folder, kind, every, *interrupt):
    keras.utils.set_random_seed(5)
    checkpoint = tfmuster.checkpoint_callback(folder, every=every)
    with strategy.scope():
        model = keras.Sequential(
            [
                keras.Input((12,)),
                keras.layers.Dense(16, activation="relu"),
                keras.layers.BatchNormalization(),
                keras.layers.Dropout(0.4),
                keras.layers.Dense(3),
            ]
        )
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        executions = 3 if kind == "executions" else 1
        model.compile("adam", loss, metrics=["accuracy"], steps_per_execution=executions)
    options = {"epochs": 4, "verbose": 0, "callbacks": [checkpoint, *interrupt]}
    if kind in ("numpy", "executions"):
        return model, model.fit(X, Y, batch_size=10, **options)
    data = tf.data.Dataset.from_tensor_slices((X, Y)).shuffle(103, seed=3)
    if kind == "repeated":
        return model, model.fit(data.repeat().batch(10), steps_per_epoch=9, shuffle=False, **options)
    return model, model.fit(data.batch(10), shuffle=False, **options)


for folder, kind, every, die_at in json.loads(sys.argv[1]):
    for step in die_at:
        try:
            train(folder, kind, every, Interrupt(step))
        except Interrupted:
            tf.keras.backend.clear_session()
    model, history = train(folder, kind, every)
    tf.keras.backend.clear_session()
    np.savez(
        Path(folder) / f"result-{worker}.npz",
        *model.get_weights(),
        **{name: values for name, values in history.history.items()},
    )

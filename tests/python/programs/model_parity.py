"""Train the four models for 50 steps and write what came of each.

Usage: model_parity.py TRAININGS; a JSON list of [FOLDER, REPLICAS, FLOATX, PARTS]. REPLICAS is the number of
workers whose global batch is trained on, also by one process. FLOATX is the type of weights and computation.
With more PARTS than one, one process computes the gradients of so many parts of each batch one after another
and adds them, which is what as many workers do.
"""

import dataclasses
import json
import os
import sys
from pathlib import Path

import numpy as np

import tfmuster
from tfmuster.digits.datasets import load
from tfmuster.digits.recipes import RECIPES

config = json.loads(os.environ.get("TF_CONFIG", "{}"))
worker = config["task"]["index"] if config else 0
strategy = tfmuster.strategy("multi_worker_mirrored" if config else "default")

import keras
import tensorflow as tf

digits = load(os.environ.get("TFMUSTER_MNIST", "synthetic"))
# Of 10,000 rows the evaluation would take a third of the time, and a difference shows in the weights.
digits = dataclasses.replace(digits, x_test=digits.x_test[:1000], y_test=digits.y_test[:1000])


def summed_step(self, data):
    x, y = data
    gradients, losses, outputs = [], [], []
    for x_part, y_part in zip(tf.split(x, parts), tf.split(y, parts), strict=True):
        with tf.GradientTape() as tape:
            outputs.append(self(x_part, training=True))
            losses.append(self.compute_loss(x_part, y_part, outputs[-1]) / parts)
        gradients.append(tape.gradient(losses[-1], self.trainable_variables))
    self.optimizer.apply_gradients(
        zip([tf.add_n(each) for each in zip(*gradients, strict=True)], self.trainable_variables, strict=True)
    )
    self._loss_tracker.update_state(tf.add_n(losses), sample_weight=tf.shape(x)[0])
    return self.compute_metrics(x, y, tf.concat(outputs, 0))


stock_step = keras.Model.train_step
for folder, replicas, floatx, parts in json.loads(sys.argv[1]):
    keras.config.set_floatx(floatx)
    keras.Model.train_step = summed_step if parts > 1 else stock_step
    for name, recipe in RECIPES.items():
        result = tfmuster.train_mnist(
            name,
            dataset=digits,
            strategy=strategy,
            batch_size=recipe.batch_size // 4 * (1 if config else replicas),
            epochs=5,
            steps_per_epoch=10,
            dropout=False,
            recipe="document",
            verbose=0,
        )
        np.savez(
            Path(folder, f"{name}-{worker}.npz"),
            **{f"weight_{i}": w for i, w in enumerate(result.model.get_weights())},
            **{f"history_{k}": v for k, v in result.history.items()},
            history_test=[result.test_loss, result.test_accuracy],
        )
        keras.backend.clear_session()

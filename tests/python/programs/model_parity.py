"""Train the four models for 50 steps and write what came of each: model_parity.py FOLDER REPLICAS [PARTS].

REPLICAS is the number of workers whose global batch is trained on, also by one process. TEST_FLOATX chooses
the type of weights and computation. With PARTS one process computes the gradients of so many parts of each
batch one after the other and adds them, which is what as many workers do.
"""

import json
import os
import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import tfmuster
from tfmuster.digits.models import RECIPES

folder, replicas, parts = Path(sys.argv[1]), int(sys.argv[2]), int((sys.argv[3:] or [1])[0])
config = json.loads(os.environ.get("TF_CONFIG", "{}"))
worker = config["task"]["index"] if config else 0
strategy = tfmuster.strategy("multi_worker_mirrored" if config else "default")
keras.config.set_floatx(os.environ["TEST_FLOATX"])
per_replica = 1 if config else replicas


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


if parts > 1:
    keras.Model.train_step = summed_step

for name, recipe in RECIPES.items():
    result = tfmuster.train_mnist(
        name,
        dataset=os.environ.get("TFMUSTER_MNIST", "synthetic"),
        strategy=strategy,
        batch_size=recipe.batch_size * per_replica // 2,
        epochs=5,
        steps_per_epoch=10,
        dropout=False,
        verbose=0,
    )
    np.savez(
        folder / f"{name}-{worker}.npz",
        **{f"weight_{i}": w for i, w in enumerate(result.model.get_weights())},
        **{f"history_{k}": v for k, v in result.history.items()},
        history_test=[result.test_loss, result.test_accuracy],
    )

"""A user's model class with parameter servers, made in the strategy's scope.

Usage: own_model.py OUT async|sync; OUT gets what came of it, as JSON.
"""

import json
import sys
from pathlib import Path

import tfmuster

strategy = tfmuster.strategy("parameter_server", min_shard_bytes=200)

import keras
import numpy as np
import tensorflow as tf


class Own(keras.Model):
    def __init__(self):
        super().__init__()
        self.norm = keras.layers.BatchNormalization()
        self.first = keras.layers.Dense(16, activation="tanh", kernel_regularizer=keras.regularizers.L2(0.01))
        self.drop = keras.layers.Dropout(0.1)
        self.last = keras.layers.Dense(3)

    def call(self, inputs, training=False):
        x = self.first(self.norm(inputs["x"], training=training))
        return self.last(self.drop(x, training=training))


rng = np.random.default_rng(0)
X = rng.standard_normal((300, 8)).astype("float32")
Y = (X @ rng.standard_normal((8, 3))).argmax(axis=1)
WEIGHTS = np.ones(300, "float32")


def dataset_fn(context):
    rows = tf.data.Dataset.from_tensor_slices(({"x": X}, Y, WEIGHTS))
    own = rows.shard(context.num_input_pipelines, context.input_pipeline_id)
    return own.shuffle(300, seed=1).batch(20)  # ends after eight batches


keras.utils.set_random_seed(3)
with strategy.scope():
    model = Own()
    model.compile(
        keras.optimizers.Adam(keras.optimizers.schedules.ExponentialDecay(0.02, 50, 0.9)),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy", keras.metrics.SparseTopKCategoricalAccuracy(2, name="top2")],
    )
try:
    model.fit({"x": X}, Y)
except tfmuster.TfmusterError as error:
    refused = str(error)


outside = keras.Sequential([keras.Input((8,)), keras.layers.Dense(3)])
outside.compile("sgd", "mse")
try:
    outside.fit(X, np.eye(3)[Y], verbose=0)
except tfmuster.TfmusterError as error:
    refused_outside = str(error)


calls = []


class Watch(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        calls.append((batch, sorted(logs)))

    def on_epoch_end(self, epoch, logs=None):
        if epoch == 2:
            self.model.stop_training = True


history = tfmuster.ps_fit(
    model,
    dataset_fn,
    epochs=5,
    steps_per_epoch=30,
    updates=sys.argv[2],
    validation_data=({"x": X}, Y),
    callbacks=[Watch(), keras.callbacks.ModelCheckpoint(sys.argv[1] + ".weights.h5", save_weights_only=True)],
    verbose=0,
)
loss, accuracy, _ = model.evaluate({"x": X}, Y, verbose=0)
before = model.predict({"x": X}, verbose=0)
model.load_weights(sys.argv[1] + ".weights.h5")
Path(sys.argv[1]).write_text(
    json.dumps(
        {
            "refused": refused,
            "refused_outside": refused_outside,
            "history": history.history,
            "params": history.params,
            "calls": len(calls),
            "call": calls[-1],
            "accuracy": accuracy,
            "moving_mean": float(np.abs(model.norm.moving_mean.numpy()).max()),
            "saved_differs": float(np.abs(model.predict({"x": X}, verbose=0) - before).max()),
            "updates": int(model.optimizer.iterations.numpy()),
        }
    )
)

"""Train on JAX until something happens to worker 1."""

import sys
import time

import keras
import numpy as np
import tensorflow as tf

what = sys.argv[1]
keras.distribution.initialize()
keras.distribution.set_distribution(keras.distribution.DataParallel())
import jax

rows = np.ones((64, 8), "float32")
model = keras.Sequential([keras.layers.Dense(1)])
model.compile("sgd", "mse")


class Event(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 2 and jax.process_index() == 1:
            if what == "raise":
                raise ArithmeticError("two and two are five")
            if what == "sleep":
                time.sleep(600)
            if what == "leave":
                sys.exit(0)


data = tf.data.Dataset.from_tensor_slices((rows, rows[:, :1])).batch(16)
if what == "end":

    def batches():
        """One batch less on worker 1, which nobody knows before they have ended."""
        for _ in range(4 - jax.process_index()):
            yield rows[:16], rows[:16, :1]

    signature = tf.TensorSpec((16, 8)), tf.TensorSpec((16, 1))
    data = tf.data.Dataset.from_generator(batches, output_signature=signature)
if what in ("label", "file"):
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(3)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    labels = np.arange(64) % 3
if what == "label":
    labels[45] = 3  # a row of worker 1
    data = tf.data.Dataset.from_tensor_slices((rows, labels)).batch(16)
if what == "file":
    names = [f"{number}.txt" for number in range(64)]

    def load(name, label):
        return tf.ensure_shape(tf.io.parse_tensor(tf.io.read_file(name), tf.float32), [8]), label

    data = tf.data.Dataset.from_tensor_slices((names, labels)).map(load).batch(16)
model.fit(data, epochs=50, verbose=0, callbacks=[Event()])

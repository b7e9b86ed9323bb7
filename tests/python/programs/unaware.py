"""A program that never heard of tfmuster, as in TensorFlow's own guide."""

import sys

import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
tf.keras.utils.set_random_seed(1)
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse")
x = np.random.default_rng(1).normal(size=(64, 4))
model.fit(x, x.sum(axis=1), batch_size=16, epochs=2, verbose=1 if "bar" in sys.argv else 2)
print(f"replicas {strategy.num_replicas_in_sync} weights {model.get_weights()[0].sum()}")

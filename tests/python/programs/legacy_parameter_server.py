"""tf-keras's own fit with parameter servers; to be run with TF_USE_LEGACY_KERAS=1."""

import numpy as np

import tfmuster

strategy = tfmuster.strategy("parameter_server", min_shard_bytes=64)

import tensorflow as tf

rng = np.random.default_rng(0)
X = rng.random((60, 8)).astype("float32")
Y = X[:, :3].argmax(axis=1)
with strategy.scope():
    layers = [tf.keras.layers.Dense(16, activation="tanh", input_shape=(8,)), tf.keras.layers.Dense(3)]
    model = tf.keras.Sequential(layers)
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tf.keras.optimizers.SGD(0.2), loss)
data = tf.keras.utils.experimental.DatasetCreator(
    lambda context: tf.data.Dataset.from_tensor_slices((X, Y)).repeat().batch(20)
)
losses = model.fit(data, epochs=2, steps_per_epoch=10, verbose=0).history["loss"]
print("losses", len(losses), losses[1] < 0.98 * losses[0], type(layers[0].kernel).__name__)

"""Train on JAX with the other workers, and print their places and the result."""

import json
import os

import keras
import numpy as np
import tensorflow as tf

keras.distribution.initialize()
keras.distribution.set_distribution(keras.distribution.DataParallel())
keras.utils.set_random_seed(1)
rows = np.arange(32, dtype="float32").reshape(8, 4) / 32
model = keras.Sequential([keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(tf.data.Dataset.from_tensor_slices((rows, rows[:, :1])).batch(4), epochs=2, verbose=0)
names = ("JOB_ADDRESSES", "NUM_PROCESSES", "PROCESS_ID")
said = [os.environ[f"KERAS_DISTRIBUTION_{name}"] for name in names]
print(json.dumps([*said, [float(weight.sum()) for weight in model.get_weights()]]), flush=True)

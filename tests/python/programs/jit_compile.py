"""Train with and without XLA: both give the same weights. TensorFlow's log says what it has compiled."""

import sys

import numpy as np

import tfmuster

strategy = tfmuster.strategy("multi_worker_mirrored")
import keras

x, y = np.linspace(-1, 1, 44, dtype="float32").reshape(11, 4), np.ones((11, 2))
found = []
for jit_compile in (False, True):
    keras.utils.set_random_seed(1)
    with strategy.scope():
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(2)])
        model.compile("sgd", "mse", jit_compile=jit_compile)
    model.fit(x, y, batch_size=4, epochs=2, verbose=0)
    found.append(np.concatenate([weight.ravel() for weight in model.get_weights()]))
    if not jit_compile:
        print("next: jit_compile", file=sys.stderr, flush=True)
np.testing.assert_allclose(*found, atol=1e-6)

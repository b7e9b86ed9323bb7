"""Train with a bit that flips on worker 1, in a sum of gradients in epoch 3 of the first attempt.

flip.c must be preloaded. Prints the final weights' sum of squares.
"""

import ctypes
import os

import numpy as np

import tfmuster

strategy = tfmuster.strategy("multi_worker_mirrored")
import keras

flips = (
    os.environ.get("FLIP") and tfmuster.current_task().index == 1 and os.environ["TFMUSTER_RESTART"] == "0"
)
#: Gradients of so many bytes are received.
SIZE = 4 * 102


class Flips(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if flips and epoch == 2:
            ctypes.CDLL(None).flip_next(SIZE)


keras.utils.set_random_seed(1)
x = np.random.default_rng(0).normal(size=(64, 101)).astype("float32")
y = x.sum(1, keepdims=True)
with strategy.scope():
    model = keras.Sequential([keras.Input((101,)), keras.layers.Dense(1)])
    model.compile("adam", "mse")
model.fit(x, y, batch_size=16, epochs=5, verbose=0, callbacks=[Flips(), tfmuster.checkpoint_callback()])
print(f"weights: {np.square(model.layers[0].get_weights()[0]).sum():.9g}")

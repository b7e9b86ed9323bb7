"""Train a model whose gradients are large, and print a digest of the weights and the bytes that a step sends.

Usage: by_machine.py FOLDER [killed | frozen]    FOLDER: for weights-RANK.npz; the last worker ends in step 12
"""

import hashlib
import os
import signal
import sys

import keras
import numpy as np

import tfmuster
from tfmuster.collectives import current_group

STEPS = 20
folder, *ends = sys.argv[1:]
strategy = tfmuster.strategy("multi_worker_mirrored" if "TF_CONFIG" in os.environ else "default")
group = current_group()
rank = group.rank if group else 0


class Sent(keras.callbacks.Callback):
    """What this worker sends in a step; and how the last worker ends."""

    begun = bytes = 0.0

    def on_epoch_begin(self, epoch, logs=None):
        self.begun = group.times().sent if group else 0.0

    def on_epoch_end(self, epoch, logs=None):
        self.bytes = (group.times().sent - self.begun) / STEPS if group else 0.0

    def on_train_batch_end(self, batch, logs=None):
        if ends and batch == 12 and rank == len(group.names) - 1:
            print("ends", flush=True)
            os.kill(os.getpid(), signal.SIGKILL if ends == ["killed"] else signal.SIGSTOP)


generator = np.random.default_rng(0)
x = generator.normal(size=(32 * STEPS, 50)).astype("float32")
y = np.tanh(x.sum(axis=1, keepdims=True))
keras.utils.set_random_seed(1)
with strategy.scope():
    hidden = [keras.layers.Dense(700, "tanh") for _ in range(2)]
    model = keras.Sequential([keras.Input((50,)), *hidden, keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(0.001), "mse")
sent = Sent()
model.fit(x, y, batch_size=32, epochs=2, shuffle=False, verbose=0, callbacks=[sent])
weights = model.get_weights()
np.savez(f"{folder}/weights-{rank}.npz", *weights)
digest = hashlib.sha256(b"".join(weight.tobytes() for weight in weights)).hexdigest()
print(digest, round(sent.bytes), sum(weight.nbytes for weight in weights), flush=True)

"""Train on MNIST, as `tfmuster train mnist` does; in the first attempts one worker ends at a given step.

Usage: mortal.py OUT HOW AT WORKER [ATTEMPTS]; HOW is killed, raises, exits, stops or survives.
"""

import os
import signal
import sys
from pathlib import Path

import numpy as np

import tfmuster

out, how, at, worker = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
attempts = int(sys.argv[5]) if len(sys.argv) > 5 else 1
index = tfmuster.current_task().index
mortal = index == worker and int(os.environ["TFMUSTER_RESTART"]) < attempts
strategy = tfmuster.strategy("multi_worker_mirrored")

import keras


class End(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if not mortal or int(self.model.optimizer.iterations.numpy()) != at:
            return
        if how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        elif how == "stops":
            os.kill(os.getpid(), signal.SIGSTOP)
        elif how == "raises":
            raise ValueError("an interruption")
        elif how == "exits":
            os._exit(3)


result = tfmuster.train_mnist(
    "mlp",
    dataset="synthetic",
    strategy=strategy,
    batch_size=16,
    epochs=3,
    steps_per_epoch=10,
    seed=7,
    checkpoint_every=4,
    callbacks=[End()],
)
np.savez(out / f"final-{index}.npz", *result.model.get_weights(), **result.history)

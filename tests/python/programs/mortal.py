"""Train on MNIST, as `tfmuster train mnist` does; in each attempt one worker ends at a given step.

Usage: mortal.py OUT [WORKER:HOW:STEP]...; HOW is killed, raises or exits. The first is for the first attempt.
"""

import os
import signal
import sys
from pathlib import Path

import numpy as np

import tfmuster

out, *ends = sys.argv[1:]
attempt, index = int(os.environ["TFMUSTER_RESTART"]), tfmuster.current_task().index
worker, how, step = ends[attempt].split(":") if attempt < len(ends) else ("-1", "", "0")
strategy = tfmuster.strategy("multi_worker_mirrored")

import keras


class End(keras.callbacks.Callback):
    begun = False

    def on_train_batch_end(self, batch, logs=None):
        done = int(self.model.optimizer.iterations.numpy())
        if not self.begun:
            self.begun = True
            print(f"attempt {attempt} begins with step {done}", flush=True)
        if index != int(worker) or done != int(step):
            return
        if how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "exits":
            os._exit(3)
        raise ValueError("an interruption")


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
np.savez(Path(out) / f"final-{index}.npz", *result.model.get_weights(), **result.history)

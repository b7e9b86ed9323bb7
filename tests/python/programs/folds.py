"""Cross-validate: a strategy, a model and a fit for each fold of the data.

Each worker prints the losses and weights of each fold. With DIES, worker 1 is killed in the second fold of
the first attempt. Without TF_CONFIG, one process trains on all data.
"""

import json
import os
import signal

import keras
import numpy as np
import tensorflow as tf

import tfmuster

several = "TF_CONFIG" in os.environ
index = tfmuster.current_task().index if several else 0
dies = "DIES" in os.environ and index == 1 and os.environ.get("TFMUSTER_RESTART", "0") == "0"
make = tf.distribute.MultiWorkerMirroredStrategy if several else tf.distribute.get_strategy
rng = np.random.default_rng(0)
x, y = rng.random((300, 8)).astype("float32"), rng.integers(0, 3, 300)


class Dies(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        if dies and fold == 1 and epoch == 1:
            os.kill(os.getpid(), signal.SIGKILL)


for fold in range(3):
    keras.utils.set_random_seed(fold)
    kept = np.arange(300) % 3 != fold
    with make().scope():
        model = keras.Sequential(
            [keras.Input((8,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(3)]
        )
        model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    callbacks = [tfmuster.checkpoint_callback(), Dies()] if several else []
    history = model.fit(
        x[kept],
        y[kept],
        batch_size=32,
        epochs=3,
        verbose=0,
        callbacks=callbacks,
        # Only this fold has a metric of its own.
        validation_data=(x[~kept], y[~kept]) if fold == 1 else None,
    )
    said = {
        "fold": fold,
        "losses": history.history["loss"],
        "tested": model.evaluate(x[~kept], y[~kept], verbose=0),
        "weights": [float(weight.sum(dtype="float64")) for weight in model.get_weights()],
    }
    print(f"said {json.dumps(said)}\n", end="", flush=True)

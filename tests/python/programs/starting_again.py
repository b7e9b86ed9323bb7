"""Train, fail once when the file is there, and write what each attempt sees into ATTEMPT-INDEX.json."""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np

attempt = int(os.environ["TFMUSTER_RESTART"])
index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
sees = {
    "name": __name__,
    "file": __file__,
    "argv": sys.argv,
    "path": sys.path,
    "folder": os.getcwd(),
    "input": sys.stdin.read(),
    "random": [random.random(), np.random.rand(), np.random.default_rng().random()],
    "imported": "tensorflow" in sys.modules,
}

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()

import keras

import tfmuster

# TensorFlow sets some variables when it is imported.
sees["environment"] = dict(os.environ)
sees["random"] += [
    float(keras.random.uniform(())),
    float(tf.random.uniform(())),
    random.random(),
    np.random.rand(),
]
x = np.random.default_rng(7).normal(size=(640, 8)).astype("float32")
with strategy.scope():
    model = keras.Sequential(
        [keras.Input((8,)), keras.layers.Dense(4), keras.layers.Dropout(0.5), keras.layers.Dense(1)]
    )
    model.compile("adam", "mse", steps_per_execution=1)


class Fail(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if attempt == 0 and batch == 15:
            while index == 1 and not Path(sys.argv[1]).exists():
                time.sleep(0.05)
            if index == 1:
                os.kill(os.getpid(), signal.SIGKILL)


model.fit(
    x, x[:, :1], batch_size=32, epochs=2, verbose=0, callbacks=[tfmuster.checkpoint_callback(every=5), Fail()]
)
sees["weights"] = [weight.tolist() for weight in model.get_weights()]
Path(f"{attempt}-{index}.json").write_text(json.dumps(sees))

"""Train with parameter servers, pause, lose idle connections, and train again.

The coordinator breaks its connections to one worker and one server when nobody has connected for so long that
their doors are closed.
"""

import json
import os
import time

import keras
import numpy as np
import tensorflow as tf
from connections import break_connections

import tfmuster

cluster = json.loads(os.environ["TF_CONFIG"])["cluster"]
strategy = tfmuster.strategy("parameter_server")
keras.utils.set_random_seed(1)
with strategy.scope():
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4)])
    model.compile("sgd", "mse")


def ones(context: tf.distribute.InputContext) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensors((np.ones((32, 8), "float32"), np.ones((32, 4), "float32"))).repeat()


def losses() -> list[float]:
    return tfmuster.ps_fit(model, ones, updates="sync", epochs=2, steps_per_epoch=10).history["loss"]


first = losses()
time.sleep(8)
broken = {job: break_connections(int(cluster[job][-1].rpartition(":")[2])) for job in ("worker", "ps")}
print("broken:", json.dumps(broken), flush=True)
time.sleep(1)
second = losses()
print("learned:", second[-1] < second[0] < first[-1], flush=True)

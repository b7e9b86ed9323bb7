"""Every worker asks for the model's bytes; each prints a digest of the weights in its own."""

import hashlib

import keras
import numpy as np

import tfmuster

strategy = tfmuster.strategy("multi_worker_mirrored")
with strategy.scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.BatchNormalization(), keras.layers.Dense(2)])
    model.compile("sgd", keras.losses.MeanSquaredError())
model.fit(np.ones((16, 4)), np.ones((16, 2)), batch_size=8, verbose=0)
for form in (".keras", ".h5"):
    loaded = tfmuster.model_from_bytes(tfmuster.model_to_bytes(model, form))
    print(hashlib.sha256(b"".join(weight.tobytes() for weight in loaded.get_weights())).hexdigest())

"""Train a network by Keras's fit and by a custom loop under a strategy; prints the losses as JSON.

Usage: strategy_matrix.py STRATEGY REPLICAS
"""

import json
import sys

import numpy as np

import tfmuster
from tfmuster.training.batches import batches

name, replicas = sys.argv[1], int(sys.argv[2])
local = name in ("mirrored", "central_storage")
strategy = tfmuster.strategy(name, replicas=replicas if local else None)

import keras
import tensorflow as tf

ROWS, GLOBAL_BATCH = 240, 48
rng = np.random.default_rng(0)
X = rng.standard_normal((ROWS, 10)).astype("float32")
Y = (X @ rng.standard_normal((10, 3))).argmax(axis=1)


def network():
    keras.utils.set_random_seed(0)
    layers = [keras.Input((10,)), keras.layers.Dense(16, activation="tanh"), keras.layers.Dense(3)]
    return keras.Sequential(layers)


def loss_of(labels, logits):
    return tf.reduce_sum(keras.ops.sparse_categorical_crossentropy(labels, logits, from_logits=True))


def data():
    return batches(X, Y, GLOBAL_BATCH, seed=1, repeated=True)


def by_fit():
    with strategy.scope():
        model = network()
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.SGD(0.1, momentum=0.9), loss)
    if name == "parameter_server":
        tfmuster.ps_fit(model, data(), 1, 20, updates="sync", verbose=0)
    else:
        model.fit(data(), steps_per_epoch=20, verbose=0)
    return model


def by_loop():
    with strategy.scope():
        model = network()
        optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
        optimizer.build(model.trainable_variables)

    def train(batch):
        x, y = batch
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True)) / GLOBAL_BATCH
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    step = tfmuster.distributed_step(strategy, train, reduce="sum")
    if name == "parameter_server":
        iterator = step.iterator(data)
        for _ in range(20):
            step(iterator)
        step.join()
    else:
        iterator = iter(strategy.experimental_distribute_dataset(data()))
        for _ in range(20):
            step(iterator)
    return model


def loss_on_all(model):
    values = [np.asarray(weight) for weight in model.get_weights()]
    logits = np.tanh(X @ values[0] + values[1]) @ values[2] + values[3]
    return float(loss_of(Y, tf.constant(logits))) / ROWS


print(json.dumps({"fit": loss_on_all(by_fit()), "loop": loss_on_all(by_loop())}))

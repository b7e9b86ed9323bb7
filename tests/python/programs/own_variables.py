"""Loops on variables of the program's own, and what became of each.

Usage: own_variables.py alone | together | end
"""

import json
import os
import sys

if sys.argv[1] != "alone":
    import tfmuster

    strategy = tfmuster.strategy("multi_worker_mirrored")
import keras
import numpy as np
import tensorflow as tf

INDEX = json.loads(os.environ["TF_CONFIG"])["task"]["index"]

x, y = tf.ones((32, 2)), tf.ones((32, 1))
W, V = tf.Variable(tf.ones((2, 1))), tf.Variable(tf.ones((2, 1)))
momentum = tf.Variable(tf.zeros((2, 1)), trainable=False)
average, steps = tf.Variable(1.0), tf.Variable(0, trainable=False)
delta = tf.Variable(tf.zeros((32, 2)))


def attempt(way):
    try:
        way()
    except Exception as error:
        reason = getattr(error, "fields", {}).get("reason")
        print(way.__name__, "refused:", reason, "|", getattr(error, "found", error), flush=True)
    else:
        print(way.__name__, "runs", flush=True)


def gradient(variable):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(tf.matmul(x, variable) - y))
    return tape.gradient(loss, variable)


# Each worker would train its own copy.


def eager():
    W.assign_sub(0.1 * gradient(W))


def by_momentum():
    for _ in range(2):
        momentum.assign(0.9 * momentum + gradient(W))
        W.assign_sub(0.1 * momentum)


@tf.function
def in_graph():
    for _ in tf.range(2):
        momentum.assign(0.9 * momentum + gradient(W))
        W.assign_sub(0.1 * momentum)


@tf.function
def both():
    return tf.constant(1.0), gradient(W)


def returned():
    for _ in range(2):
        W.assign(W - 0.1 * both()[1])


def of_keras():
    layer = keras.layers.Dense(1)
    layer.build((None, 2))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(x))
    weights = layer.trainable_weights
    for weight, slope in zip(weights, tape.gradient(loss, weights), strict=True):
        weight.assign(weight - 0.1 * slope)


# Nothing is trained.


def saliency():
    for step in range(3):
        gradient(W)
        W.assign(tf.ones((2, 1)) * step)
        V.assign_add(tf.ones((2, 1)))


def counted():
    for _ in range(3):
        average.assign_sub(0.1 * (average - tf.norm(gradient(W))))
        steps.assign_add(1)


def own_on_purpose():
    own = tf.Variable(tf.ones((2, 1)), trainable=False)
    with tf.GradientTape() as tape:
        tape.watch(own)
        loss = tf.reduce_sum(x @ own)
    own.assign_sub(tape.gradient(loss, own))


# The workers add.


def added():
    def step():
        W.assign_sub(0.1 * tf.distribute.get_replica_context().all_reduce("SUM", gradient(W)))

    run = tf.function(lambda: strategy.run(step))
    run()


def reduced():
    step = tf.function(lambda: strategy.reduce("SUM", strategy.run(gradient, args=(W,)), axis=None))
    W.assign_sub(0.1 * step())


def gathered():
    W.assign_sub(0.1 * np.mean(tfmuster.gather(gradient(W).numpy()), axis=0))


def of_the_scope():
    with strategy.scope():
        optimizer = keras.optimizers.SGD(0.1)
        optimizer.build([mirrored])

    def train(rows):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.matmul(rows, mirrored) - 1.0)) / 2
        optimizer.apply_gradients([(tape.gradient(loss, mirrored), mirrored)])
        return loss

    rows = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(x).batch(8))
    step, batches = tfmuster.distributed_step(strategy, train), iter(rows)
    assert step(batches) > step(batches)


# Beside a training of all workers.


def perturbation():
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.matmul(x + delta, mirrored) - y)) * (INDEX + 1.0)
        delta.assign_add(0.01 * tf.sign(tape.gradient(loss, delta)))

    tf.function(lambda: strategy.run(step))()


def by_one():
    if INDEX == 0:
        V.assign_sub(0.1 * gradient(V))


# What is refused with a strategy, too.


def outside():
    mirrored.assign_sub(0.1 * gradient(mirrored))


@tf.function
def outside_in_graph():
    mirrored.assign_sub(0.1 * gradient(mirrored))


def in_scope():
    with strategy.scope():
        gradient(mirrored)


def plain_in_step():
    optimizer = keras.optimizers.SGD(0.1)
    strategy.run(lambda: optimizer.apply_gradients([(gradient(V), V)]))


for name in ("in_graph", "both", "outside_in_graph"):
    globals()[name].__name__ = name
if sys.argv[1] == "alone":
    ways = (saliency, counted, own_on_purpose, eager, by_momentum, in_graph, returned, of_keras)
elif sys.argv[1] == "together":
    with strategy.scope():
        mirrored = tf.Variable(tf.ones((2, 1)))
    refused = outside, outside_in_graph, in_scope, plain_in_step
    ways = (*refused, saliency, counted, added, reduced, gathered, of_the_scope, perturbation, by_one)
else:
    x *= INDEX + 1.0

    def step():
        W.assign_sub(0.1 * gradient(W))
        return tf.reduce_sum(W)

    run = tf.function(lambda: strategy.reduce("SUM", strategy.run(step), axis=None))
    for _ in range(3):
        run()
    ways = ()
for way in ways:
    attempt(way)
print("at the end", flush=True)

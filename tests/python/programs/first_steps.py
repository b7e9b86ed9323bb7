"""First steps of two workers that are not those of one process, by the program or by a planted fault."""

import contextlib
import json
import os
from unittest import mock

import numpy as np
import tensorflow as tf

import tfmuster

strategy = tfmuster.strategy("multi_worker_mirrored")
import keras

from tfmuster.keras_compat.losses import layer_states, loss_parts
from tfmuster.keras_compat.process import PROCESS, listen
from tfmuster.keras_compat.proof import first_step
from tfmuster.keras_compat.sums import gradients as sums_of_gradients

rng = np.random.default_rng(1)
x, y = rng.normal(size=(59, 6)).astype("float32"), rng.integers(0, 3, 59)
worker = tfmuster.current_task().index
notes = []
listen(lambda about, text, **_: notes.append(f"{about}: {text}"))


class Retrieval(keras.Model):
    """The other rows of a batch are the wrong answers."""

    def __init__(self, whole=False):
        super().__init__()
        self.tower, self.whole = keras.layers.Dense(4), whole

    def call(self, rows):
        return self.tower(rows)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        other = tfmuster.all_rows(y_pred) if self.whole else y_pred
        similar = tf.matmul(other, other, transpose_b=True)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        return loss(tf.range(tf.shape(similar)[0]), similar)


class Covariance(keras.layers.Layer):
    def call(self, rows):
        centred = rows - tf.reduce_mean(rows, 0)
        spread = tf.matmul(centred, centred, transpose_a=True) / tf.cast(tf.shape(rows)[0], rows.dtype)
        self.add_loss(tf.reduce_sum(spread**2))
        return rows


class Product(keras.layers.Layer):
    """Its state is a product over rows."""

    def build(self, shape):
        self.state = self.add_weight(shape=(), initializer="ones", trainable=False)

    def call(self, rows):
        self.state.assign(tf.reduce_prod(1 + 0.1 * rows))
        return rows


class Count(keras.layers.Layer):
    def build(self, shape):
        self.state = self.add_weight(shape=(), initializer="zeros", trainable=False)

    def call(self, rows):
        self.state.assign_add(tf.cast(tf.shape(rows)[0], tf.float32))
        return rows


class Noise(keras.layers.Layer):
    def call(self, rows):
        return rows + tf.random.normal(tf.shape(rows))


class Root(keras.Model):
    def train_step(self, data):
        rows, labels = data
        with tf.GradientTape() as tape:
            loss = tf.sqrt(tf.reduce_mean(tf.square(self(rows) - tf.cast(labels[:, None], tf.float32))))
        weights = self.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
        return {"root": loss}


def network(*layers, loss="sparse_categorical_crossentropy", kind=keras.Model, **compiled):
    keras.backend.clear_session()
    keras.utils.set_random_seed(3)
    with strategy.scope():
        inputs = keras.Input((6,))
        outputs = keras.layers.Dense(4, activation="tanh")(inputs)
        for layer in layers:
            outputs = layer(outputs)
        made = kind(inputs, keras.layers.Dense(3, activation="softmax", name="last")(outputs))
        made.compile(keras.optimizers.SGD(0.1, momentum=0.9), loss, metrics=["accuracy"], **compiled)
    return made


def retrieval(whole=False):
    with strategy.scope():
        made = Retrieval(whole)
        made.compile("sgd")
    return made


def fit(model, rows=59):
    model.fit(x[:rows], y[:rows], batch_size=16, epochs=1, shuffle=False, verbose=0)
    return model


def sum_of_gradients(change):
    """Change the sums of gradients that the optimizer gets."""
    stock = sums_of_gradients._sum_gradients
    changed = lambda *arguments: change(stock(*arguments))
    return mock.patch.object(sums_of_gradients, "_sum_gradients", changed)


def doubled(stock):
    return lambda *arguments: 2 * stock(*arguments)


nothing = contextlib.nullcontext
STEPS = {
    "rows coupled": (retrieval, nothing()),
    "rows coupled, with all_rows": (lambda: retrieval(whole=True), nothing()),
    "covariance of rows": (lambda: network(Covariance()), nothing()),
    "product of rows": (lambda: network(Product()), nothing()),
    "tf.random": (lambda: network(Noise()), nothing()),
    "root of a mean": (lambda: network(kind=Root), nothing()),
    "mixed rows": (lambda: network(keras.layers.Lambda(lambda rows: tf.reverse(rows, [0]))), nothing()),
    "no fault": (lambda: network(Count()), nothing()),
    "gradients halved": (
        lambda: network(Count()),
        sum_of_gradients(lambda sums: [0.5 * one for one in sums]),
    ),
    "a gradient left out": (
        lambda: network(Count()),
        sum_of_gradients(lambda sums: [*sums[:-1], tf.zeros_like(sums[-1])]),
    ),
    "a metric doubled": (
        lambda: network(Count()),
        mock.patch.object(loss_parts, "as_part", doubled(loss_parts.as_part)),
    ),
    "a state averaged": (
        lambda: network(Count()),
        mock.patch.object(layer_states, "_of_all", lambda value: None),
    ),
    "one batch": (lambda: network(Count()), nothing()),
    "little memory of a worker": (
        lambda: network(Count()),
        mock.patch.object(first_step, "free_memory", lambda: 100 if worker else 2**40),
    ),
    "never": (retrieval, mock.patch.dict(os.environ, TFMUSTER_VERIFY="never")),
    "always": (network, mock.patch.dict(os.environ, TFMUSTER_VERIFY="always")),
    "auto": (network, nothing()),
    "eager": (lambda: network(Count(), run_eagerly=True), nothing()),
}
for name, (make, planted) in STEPS.items():
    PROCESS.told.clear()
    notes.clear()
    told = {"name": name, "error": None}
    with planted:
        model = make()
        before = [weight.copy() for weight in model.get_weights()]
        try:
            fit(model, 16 if name == "one batch" else 59)
        except tfmuster.TfmusterError as error:
            told |= {"error": str(error), "reason": error.fields["reason"]}
    if before:
        after = model.get_weights()
        told["same"] = all(np.array_equal(one, other) for one, other in zip(before, after))
    print(json.dumps(told | {"notes": notes}), flush=True)

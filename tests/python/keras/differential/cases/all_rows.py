"""Losses that compare the rows of a batch with each other, by ``all_rows()``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf
from keras import layers, ops

from .registry import Result, case
from .training import numbers, trained

X, Y = numbers(6), numbers(1, seed=2)


def all_rows(tensor: Any) -> Any:
    """One process of stock Keras has them already, and no tfmuster."""
    return sys.modules["tfmuster"].all_rows(tensor) if "tfmuster" in sys.modules else tensor


class Towers(keras.Model):
    """Two towers and a temperature, as in recommenders and CLIP."""

    def __init__(self) -> None:
        super().__init__()
        self.queries, self.items = layers.Dense(4, activation="tanh"), layers.Dense(4, activation="tanh")
        self.temperature = self.add_weight(shape=(), initializer="ones", name="temperature")

    def call(self, x: Any) -> Any:
        return self.queries(x), self.items(x)

    def scores(self, queries: Any, items: Any) -> Any:
        return ops.matmul(queries, ops.transpose(items)) * ops.exp(self.temperature)


@case()
def all_rows_in_compute_loss(folder: Path) -> Result:
    class InBatch(Towers):
        def compute_loss(
            self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, **more: Any
        ) -> Any:
            scores = self.scores(*map(all_rows, y_pred))
            places = ops.arange(ops.shape(scores)[0])
            one_way = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            other_way = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="sum")
            return one_way(places, scores) + 0.1 * other_way(places, ops.transpose(scores))

    return trained(InBatch(), X, loss=None, validation_data=(X[:23],))


@case()
def all_rows_against_the_own_ones(folder: Path) -> Result:
    """Own queries against the items of all: the gradient of an item has a part from each worker."""

    class OwnQueries(Towers):
        def train_step(self, data: Any) -> dict[str, Any]:
            x, labels = data
            with tf.GradientTape() as tape:
                queries, items = self(x, training=True)
                same = ops.equal(labels, ops.transpose(all_rows(labels)))
                scores = self.scores(queries, all_rows(items))
                loss = ops.mean(-ops.sum(ops.where(same, ops.log_softmax(scores), 0.0), axis=1))
                loss += 0.01 * ops.sum(ops.square(queries)) + 0.1 * ops.std(all_rows(items))
            self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
            return {"loss": loss}

    labels = (numbers(1, seed=5) * 4).astype("int32")
    return trained(OwnQueries(), X, labels, loss=None)


@case()
def all_rows_in_a_layer(folder: Path) -> Result:
    class Covariance(layers.Layer):
        def call(self, x: Any) -> Any:
            rows = all_rows(x)
            centered = rows - ops.mean(rows, axis=0)
            count = ops.cast(ops.shape(rows)[0], "float32")
            covariance = ops.matmul(ops.transpose(centered), centered) / count
            self.add_loss(ops.sum(ops.square(covariance)))
            return x

    model = keras.Sequential([keras.Input((6,)), layers.Dense(4), Covariance(), layers.Dense(1)])
    return trained(model, X, Y, validation_data=(X[:23], Y[:23]))


@case()
def all_rows_in_a_step_of_fixed_batches(folder: Path) -> Result:
    class Spread(Towers):
        def train_step(self, x: Any) -> dict[str, Any]:
            with tf.GradientTape() as tape:
                queries, items = map(all_rows, self(x, training=True))
                loss = tf.reduce_sum(tf.square(queries - items)) + tf.sqrt(tf.reduce_mean(tf.square(queries)))
            weights = self.queries.trainable_variables + self.items.trainable_variables
            self.optimizer.apply(tape.gradient(loss, weights), weights)
            return {"loss": loss}

    return trained(Spread(), X[:32], loss=None, optimizer=keras.optimizers.SGD(0.01))


@case()
def all_rows_by_tensorflows_gather(folder: Path) -> Result:
    class Gathering(Towers):
        def train_step(self, x: Any) -> dict[str, Any]:
            with tf.GradientTape() as tape:
                both = self(x, training=True)
                queries, items = tf.distribute.get_replica_context().all_gather(list(both), axis=0)
                loss = tf.reduce_mean(tf.square(tf.matmul(queries, items, transpose_b=True)))
            weights = self.queries.trainable_variables + self.items.trainable_variables
            self.optimizer.apply(tape.gradient(loss, weights), weights)
            return {"loss": loss}

    return trained(Gathering(), X, loss=None)

"""Training loops without ``fit``, with random numbers: each worker has the numbers of its own rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from .registry import Result, add, case
from .training import BATCH, numbers, trained

#: Whole batches: TensorFlow gives a worker more rows of a smaller last one than another.
ROWS = 3 * BATCH
X, Y = numbers(6, rows=ROWS), numbers(1, rows=ROWS, seed=2)


def trained_in_a_loop(model: keras.Model, x: Any) -> Result:
    """Train a model as TensorFlow's guide does."""
    strategy = tf.distribute.get_strategy()
    optimizer = keras.optimizers.SGD(0.01)
    optimizer.build(model.trainable_variables)

    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.nn.compute_average_loss(
                tf.reduce_mean(tf.square(y - model(x, training=True)), axis=-1), global_batch_size=BATCH
            )
        weights = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return loss

    @tf.function
    def train(x: Any, y: Any) -> Any:
        losses = strategy.run(step, args=(x, y))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    batches = tf.data.Dataset.from_tensor_slices((x, Y)).batch(BATCH)
    history = [
        float(train(*batch)) for _ in range(2) for batch in strategy.experimental_distribute_dataset(batches)
    ]
    return Result(model, {"loss": history})


def with_layer(name: str, layer: Callable[[], Any], *shape: int) -> None:
    def run(folder: Path) -> Result:
        parts = [layer(), layers.Flatten(), layers.Dense(5, activation="tanh"), layer(), layers.Dense(1)]
        model = keras.Sequential([keras.Input(shape), *(parts if len(shape) == 1 else parts[:2] + parts[4:])])
        return trained_in_a_loop(model, numbers(*shape, rows=ROWS))

    add(f"loop_{name}", run)


for name, layer, shape in [
    ("dropout", lambda: layers.Dropout(0.5, seed=1), (6,)),
    ("gaussian_noise", lambda: layers.GaussianNoise(0.5, seed=1), (6,)),
    ("spatial_dropout", lambda: layers.SpatialDropout1D(0.5, seed=1), (4, 3)),
    ("random_flip", lambda: layers.RandomFlip(seed=1), (8, 8, 3)),
    ("random_rotation", lambda: layers.RandomRotation(0.2, seed=1), (8, 8, 3)),
]:
    with_layer(name, layer, *shape)


def drawn_in_steps(draws: dict[str, Callable[[Any], Any]]) -> dict[str, Any]:
    """Return what each function draws in a step for the rows of all workers, in their order."""
    strategy = tf.distribute.get_strategy()
    batches = tf.data.Dataset.from_tensor_slices(X).batch(BATCH)
    (batch, *_) = strategy.experimental_distribute_dataset(batches)

    @tf.function
    def numbers_of(batch: Any) -> Any:
        return strategy.run(lambda x: {name: draw(x) for name, draw in draws.items()}, args=(batch,))

    found = {name: strategy.gather(values, axis=0) for name, values in numbers_of(batch).items()}
    return {name: values.numpy() for name, values in found.items()}


#: The distributions of keras.random.
DISTRIBUTIONS: dict[str, Callable[[Any], Any]] = {
    "uniform": lambda x: keras.random.uniform(tf.shape(x), seed=3),
    "normal": lambda x: keras.random.normal((tf.shape(x)[0], 3, 5), seed=3),
    "truncated": lambda x: keras.random.truncated_normal(tf.shape(x), seed=3),
    "integers": lambda x: keras.random.randint(tf.shape(x), 0, 100, seed=3),
    "gamma": lambda x: keras.random.gamma(tf.shape(x), 0.5, seed=3),
    "beta": lambda x: keras.random.beta(tf.shape(x)[:1], 0.2, 0.2, seed=3),
    "binomial": lambda x: keras.random.binomial(tf.shape(x), tf.round(x * 100), 0.5, seed=3),
    "categories": lambda x: keras.random.categorical(tf.math.log(x), 9, seed=3),
}


@case()
def loop_random_numbers(folder: Path) -> Result:
    return Result(others=drawn_in_steps(DISTRIBUTIONS))


@case()
def predict_random_numbers(folder: Path) -> Result:
    """The rows of the last batch are not divided evenly."""

    class Draws(keras.Model):
        def predict_step(self, x: Any) -> Any:
            return {name: draw(x) for name, draw in DISTRIBUTIONS.items()}

    model = Draws()
    model.compile()
    return Result(others=model.predict(X[:41], batch_size=BATCH, verbose=0))


@case()
def fit_random_numbers(folder: Path) -> Result:
    """Sums over all rows of what is drawn for each of them."""

    class Draws(keras.Model):
        def train_step(self, x: Any) -> dict[str, Any]:
            for name, draw in DISTRIBUTIONS.items():
                drawn = tf.reshape(tf.cast(draw(x), tf.float32), (tf.shape(x)[0], -1))
                self.sums[name].update_state(tf.reduce_sum(drawn, axis=1) * tf.reduce_sum(x, axis=1))
            return {name: each.result() for name, each in self.sums.items()}

    model = Draws()
    model.compile("sgd")
    model.sums = {name: keras.metrics.Mean(name=name) for name in DISTRIBUTIONS}
    return Result(history=model.fit(X[:41], batch_size=BATCH, verbose=0, shuffle=False).history)


@case(differs="Each worker mixes its own rows.")
def fit_mix_up(folder: Path) -> Result:
    inputs = keras.Input((8, 8, 3))
    outputs = layers.Dense(1)(layers.Flatten()(layers.MixUp()(inputs)))
    return trained(keras.Model(inputs, outputs), numbers(8, 8, 3), numbers(1, seed=2))


@case(differs="Each worker has a seed of its own.")
def loop_random_numbers_with_a_state(folder: Path) -> Result:
    """TensorFlow's own: no two rows of a batch get the same numbers."""
    draws = {
        "uniform": lambda x: tf.random.uniform(tf.shape(x)),
        "normal": lambda x: tf.random.normal((tf.shape(x)[0], 3, 5)),
        "truncated": lambda x: tf.random.truncated_normal(tf.shape(x)),
        "integers": lambda x: tf.random.uniform(tf.shape(x), 0, 1_000_000, dtype=tf.int64),
        "gamma": lambda x: tf.random.gamma(tf.shape(x), 0.5),
        "poisson": lambda x: tf.random.poisson(tf.shape(x), 1e6),
        "categories": lambda x: tf.random.categorical(tf.zeros_like(x), 30),
        "dropout": lambda x: tf.nn.dropout(tf.ones((tf.shape(x)[0], 60)), 0.5),
    }
    found = drawn_in_steps(draws)
    for name, values in found.items():
        assert len(np.unique(values, axis=0)) == BATCH, name
    return Result(others=found)


class Noisy(layers.Layer):
    """A layer as TensorFlow's guides write it, with a random operation that has a state."""

    def call(self, x: Any) -> Any:
        return tf.random.normal(tf.shape(x))


@case(differs="Each worker has a seed of its own.")
def fit_random_numbers_with_a_state(folder: Path) -> Result:
    """No two rows of a batch get the same noise in predict and in fit; all workers read the same."""
    model = keras.Sequential([keras.Input((6,)), Noisy()])
    model.compile()
    noise = model.predict(X, batch_size=ROWS, verbose=0)
    assert len(np.unique(noise, axis=0)) == ROWS

    class Draws(keras.Model):
        def train_step(self, x: Any) -> dict[str, Any]:
            noise = self(x)
            everyone = tf.distribute.get_replica_context().all_gather(noise[:, 0], axis=0)
            return {"different": tf.size(tf.unique(everyone)[0])}

    inputs = keras.Input((6,))
    drawing = Draws(inputs, Noisy()(inputs))
    drawing.compile("sgd")
    return Result(history=drawing.fit(X, batch_size=BATCH, verbose=0).history)

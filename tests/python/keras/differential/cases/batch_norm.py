"""BatchNormalization, which normalizes with the statistics of the whole batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from .registry import Result, case
from .training import BATCH, numbers, trained

X, Y, IMAGES = numbers(6), numbers(1, seed=2), numbers(4, 4, 3, seed=3)


def model_with(*hidden: keras.layers.Layer, shape: tuple[int, ...] = (6,)) -> keras.Model:
    return keras.Sequential([keras.Input(shape), *hidden, layers.Flatten(), layers.Dense(1)])


@case()
def batch_norm(folder: Path) -> Result:
    model = model_with(
        layers.Dense(4, use_bias=False), layers.BatchNormalization(momentum=0.8), layers.Activation("tanh")
    )
    return trained(model, X, Y, validation_data=(X, Y), optimizer=keras.optimizers.Adam(0.01))


@case()
def batch_norm_of_several_steps(folder: Path) -> Result:
    model = model_with(layers.BatchNormalization(), layers.Dense(3), layers.BatchNormalization())
    return trained(model, X, Y, compiling={"steps_per_execution": 2})


@case()
def batch_norm_with_less_rows_than_workers(folder: Path) -> Result:
    return trained(model_with(layers.BatchNormalization()), X[:17], Y[:17])


@case()
def batch_norm_of_images(folder: Path) -> Result:
    """A mean that is much larger than the deviation, along each of two axes."""
    hidden = [layers.BatchNormalization(axis=1), layers.Conv2D(2, 3), layers.BatchNormalization()]
    return trained(model_with(*hidden, shape=(4, 4, 3)), IMAGES + 30, Y, optimizer=keras.optimizers.SGD(1e-3))


@case()
def batch_norm_of_masked_rows(folder: Path) -> Result:
    x = numbers(5, 3)
    x[:, 2:] *= np.arange(len(x))[:, None, None] % 3 > 0
    return trained(model_with(layers.Masking(), layers.BatchNormalization(), shape=(5, 3)), x, Y)


@case()
def batch_norm_frozen(folder: Path) -> Result:
    """A model on top of another one, that is trained on afterwards."""
    base = keras.Sequential([keras.Input((6,)), layers.Dense(4), layers.BatchNormalization(momentum=0.5)])
    model = keras.Sequential([base, layers.Dense(1)])
    base.trainable = False
    trained(model, X, Y)
    base.trainable = True
    return trained(model, X, Y)


@case(tolerance=3e-3)
def batch_norm_in_bfloat16(folder: Path) -> Result:
    hidden = [layers.Conv2D(2, 3, dtype="mixed_bfloat16"), layers.BatchNormalization(dtype="mixed_bfloat16")]
    return trained(model_with(*hidden, shape=(4, 4, 3)), IMAGES, Y)


@case()
def batch_norm_eagerly(folder: Path) -> Result:
    model = model_with(layers.BatchNormalization(), layers.Dense(3, activation="tanh"))
    return trained(model, X[:20], Y[:20], compiling={"run_eagerly": True})


@case()
def batch_norm_in_a_step_of_ones_own(folder: Path) -> Result:
    class Twice(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.out = layers.BatchNormalization(momentum=0.9), layers.Dense(1)

        def call(self, x: Any, training: bool = False) -> Any:
            return self.out(self.norm(x, training=training))

        def train_step(self, data: Any) -> dict[str, Any]:
            x, y = data
            with tf.GradientTape() as tape:
                near = tf.reduce_mean(tf.square(self(x, training=True) - y))
                far = tf.reduce_mean(tf.square(self(1 - x, training=True) - y))
                loss = near + 0.5 * far
            self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
            return {"loss": loss}

    return trained(Twice(), X, Y)


@case()
def batch_norm_by_batches(folder: Path) -> Result:
    model = model_with(layers.BatchNormalization(momentum=0.7))
    model.compile(keras.optimizers.SGD(0.05), "mse")
    losses = [model.train_on_batch(X[i : i + BATCH], Y[i : i + BATCH]) for i in (0, BATCH, 2 * BATCH)]
    return Result(model, {"loss": losses})


class AlwaysTraining(keras.Model):
    """Normalizes with the batch also when it is tested."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.out = layers.BatchNormalization(), layers.Dense(1)

    def call(self, x: Any) -> Any:
        return self.out(self.norm(x, training=True))


@case()
def batch_norm_in_evaluate(folder: Path) -> Result:
    model = AlwaysTraining()
    result = trained(model, X, Y)
    return Result(model, result.history, {"tested": model.evaluate(X, Y, batch_size=BATCH, verbose=0)})


@case()
def batch_norm_in_predict(folder: Path) -> Result:
    model = AlwaysTraining()
    return Result(model, {}, {"predicted": model.predict(X, batch_size=BATCH, verbose=0)})

"""Every loss of Keras, losses that users write, weights and masks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers, losses, ops

from .registry import Result, add, case
from .training import BATCH, ROWS, integers, numbers, one_hot, small_network, trained

#: Sample weights, of which some are 0.
WEIGHTS = np.where(np.arange(ROWS) % 3, np.linspace(0, 2, ROWS), 0).astype("float32")
SIGNS = (2 * integers(2, 1) - 1).astype("float32")
RATE = 0.2


def rows_mean(y: Any, p: Any) -> Any:
    return ops.mean(ops.square(y - p), axis=-1)


def one_mean(y: Any, p: Any) -> Any:
    return ops.mean(ops.square(y - p))


def one_sum(y: Any, p: Any) -> Any:
    return 0.05 * ops.sum(ops.square(y - p))


def one_root(y: Any, p: Any) -> Any:
    return ops.sqrt(ops.mean(ops.square(y - p)))


def among_other_rows(y: Any, p: Any) -> Any:
    """In-batch negatives: one number for each row, for which the other rows are wrong answers."""
    scores = ops.matmul(p, ops.transpose(p))
    return keras.losses.sparse_categorical_crossentropy(ops.arange(ops.shape(p)[0]), scores, from_logits=True)


def with_loss(
    name: str,
    loss: Callable[[], Any],
    y: Any,
    *,
    outputs: int = 1,
    activation: str | None = None,
    rate: float = RATE,
    **fit: Any,
) -> None:
    def run(folder: Path) -> Result:
        model = small_network(outputs, activation)
        return trained(model, numbers(6), y, loss=loss(), optimizer=keras.optimizers.SGD(rate), **fit)

    add(f"loss_{name}", run)


REAL, CLASS, BITS = numbers(1, seed=2), one_hot(3), integers(2, 1).astype("float32")
for name, loss, labels, outputs, activation in [
    ("binary_crossentropy", losses.BinaryCrossentropy, BITS, 1, "sigmoid"),
    ("binary_focal_crossentropy", losses.BinaryFocalCrossentropy, BITS, 1, "sigmoid"),
    ("categorical_crossentropy", losses.CategoricalCrossentropy, CLASS, 3, "softmax"),
    ("categorical_focal_crossentropy", losses.CategoricalFocalCrossentropy, CLASS, 3, "softmax"),
    ("categorical_generalized", losses.CategoricalGeneralizedCrossEntropy, integers(3), 3, "softmax"),
    ("categorical_hinge", losses.CategoricalHinge, CLASS, 3, None),
    ("circle", losses.Circle, integers(3), 3, None),
    ("cosine_similarity", losses.CosineSimilarity, numbers(3, seed=2), 3, None),
    ("dice", losses.Dice, CLASS, 3, "softmax"),
    ("dice_of_rows", lambda: losses.Dice(axis=(1,)), CLASS, 3, "softmax"),
    ("hinge", losses.Hinge, SIGNS, 1, "tanh"),
    ("huber", losses.Huber, REAL, 1, None),
    ("kl_divergence", losses.KLDivergence, CLASS, 3, "softmax"),
    ("log_cosh", losses.LogCosh, REAL, 1, None),
    ("mean_absolute_error", losses.MeanAbsoluteError, REAL, 1, None),
    ("mean_absolute_percentage_error", losses.MeanAbsolutePercentageError, REAL + 1, 1, None),
    ("mean_squared_error", losses.MeanSquaredError, REAL, 1, None),
    ("mean_squared_logarithmic_error", losses.MeanSquaredLogarithmicError, REAL, 1, "softplus"),
    ("poisson", losses.Poisson, REAL, 1, "softplus"),
    ("sparse_categorical_crossentropy", losses.SparseCategoricalCrossentropy, integers(3), 3, "softmax"),
    ("squared_hinge", losses.SquaredHinge, SIGNS, 1, "tanh"),
    ("tversky", losses.Tversky, CLASS, 3, "softmax"),
    # What users write.
    ("function_of_rows", lambda: rows_mean, REAL, 1, None),
    ("function_with_one_mean", lambda: one_mean, REAL, 1, None),
    ("function_with_one_sum", lambda: one_sum, REAL, 1, None),
    ("function_with_one_root", lambda: one_root, REAL, 1, None),
    ("function_of_rows_among_others", lambda: among_other_rows, REAL, 3, None),
    ("crossentropy_by_name", lambda: "crossentropy", CLASS, 3, "softmax"),
]:
    with_loss(name, loss, labels, outputs=outputs, activation=activation)

for name, reduction in [
    ("sum_over_batch_size", "sum_over_batch_size"),
    ("mean", "mean"),
    ("mean_with_sample_weight", "mean_with_sample_weight"),
]:
    with_loss(
        f"weighted_{name}",
        lambda reduction=reduction: losses.MeanSquaredError(reduction=reduction),
        REAL,
        sample_weight=WEIGHTS,
    )
with_loss("sum", lambda: losses.MeanSquaredError(reduction="sum"), REAL, rate=0.01)
with_loss("weighted_one_mean", lambda: one_mean, REAL, sample_weight=WEIGHTS)
with_loss(
    "class_weight",
    losses.SparseCategoricalCrossentropy,
    integers(3),
    outputs=3,
    activation="softmax",
    class_weight={0: 0.0, 1: np.float64(1.0), 2: np.float64(3.0)},
)


@case()
def loss_masked(folder: Path) -> Result:
    model = keras.Sequential([keras.Input((7,)), layers.Embedding(5, 4, mask_zero=True), layers.Dense(1)])
    return trained(model, integers(5, 7), numbers(7, 1, seed=2), optimizer=keras.optimizers.SGD(RATE))


@case()
def loss_masked_and_weighted(folder: Path) -> Result:
    model = keras.Sequential([keras.Input((7,)), layers.Embedding(5, 4, mask_zero=True), layers.Dense(1)])
    return trained(
        model,
        integers(5, 7),
        numbers(7, 1, seed=2),
        optimizer=keras.optimizers.SGD(RATE),
        sample_weight=WEIGHTS[:, None],
    )


@case()
def loss_ctc(folder: Path) -> Result:
    model = keras.Sequential([keras.Input((8, 3)), layers.Dense(5)])
    labels = 1 + integers(4, 3)  # 0 is the class of blanks
    return trained(model, numbers(8, 3), labels, loss=losses.CTC(), optimizer=keras.optimizers.SGD(0.02))


@case()
def loss_of_two_outputs(folder: Path) -> Result:
    x = keras.Input((6,))
    hidden = layers.Dense(4, activation="tanh")(x)
    outputs = {name: layers.Dense(1, name=name)(hidden) for name in ("first", "second")}
    return trained(
        keras.Model(x, outputs),
        numbers(6),
        {"first": REAL, "second": 2 * REAL},
        loss={"first": "mse", "second": "mae"},
        compiling={"loss_weights": {"first": 1.0, "second": 0.3}},
        batch_size=13,
    )


@case()
def loss_of_labels_that_are_missing(folder: Path) -> Result:
    """NaN in the data says nothing about how a batch is divided."""

    def of_known(y: Any, p: Any) -> Any:
        return ops.mean(ops.where(ops.isnan(y), 0.0, ops.square(ops.nan_to_num(y) - p)), axis=-1)

    labels = np.where(REAL > 0.7, np.nan, REAL)
    rows = tf.data.Dataset.from_tensor_slices((numbers(6), labels))
    # Every worker reads the rows of a filter, whose labels are compared.
    data = rows.filter(lambda x, y: tf.size(x) > 0).batch(BATCH)
    return trained(small_network(), data, loss=of_known, validation_data=data)


@case()
def loss_computed_by_the_program(folder: Path) -> Result:
    """Outside of a step there is one process only."""
    y, p = numbers(3), numbers(3, seed=2)
    values = {"mse": losses.MeanSquaredError()(y, p), "weighted": losses.Huber()(y, p, WEIGHTS)}
    return Result(others={name: np.asarray(value) for name, value in values.items()})


class Penalty(layers.Layer):
    """Adds a loss of its own, computed from the square of each number."""

    def __init__(self, penalty: Callable[[Any], Any]) -> None:
        super().__init__()
        self.penalty = penalty

    def call(self, x: Any) -> Any:
        self.add_loss(self.penalty(ops.square(x)))
        return x


def with_penalty(name: str, penalty: Callable[[Any], Any]) -> None:
    """Add cases with a smaller last batch, and with batches of one size, which is known before the step."""

    def run(folder: Path, rows: int) -> Result:
        model = keras.Sequential([keras.Input((6,)), layers.Dense(4), Penalty(penalty), layers.Dense(1)])
        result = trained(model, numbers(6, rows=rows), REAL[:rows])
        tested = model.evaluate(numbers(6, rows=rows), REAL[:rows], batch_size=BATCH, verbose=0)
        return Result(model, result.history, {"tested": tested})

    add(f"loss_added_by_a_layer_{name}", lambda folder: run(folder, ROWS))
    add(f"loss_added_by_a_layer_{name}_of_fixed_batches", lambda folder: run(folder, 2 * BATCH))


with_penalty("mean", lambda squares: 0.1 * ops.mean(squares))
with_penalty("sum", lambda squares: 0.01 * ops.sum(squares))
with_penalty("sum_over_a_number", lambda squares: ops.sum(squares) / BATCH)
with_penalty("number_for_each_row", lambda squares: 0.01 * ops.sum(squares, axis=1))
with_penalty("loss_object", lambda squares: losses.MeanAbsoluteError()(ops.zeros_like(squares), squares))


@case()
def loss_added_by_an_activity_regularizer(folder: Path) -> Result:
    hidden = layers.Dense(4, activity_regularizer=keras.regularizers.L2(0.1))
    return trained(
        keras.Sequential([keras.Input((6,)), hidden, layers.Dense(1)]), numbers(6, rows=32), REAL[:32]
    )

"""How the terms of a user's loss are read off the graph of a step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfmuster.keras_compat.losses import loss_parts
from tfmuster.keras_compat.process import PROCESS

SHARE = 0.25
ROWS = np.arange(12, dtype="float32").reshape(6, 2)
WEIGHT = tf.Variable(2.0)
WEIGHTS = tf.Variable([[0.3], [-0.2]])


def part(loss: Callable[[Any], Any], rows: np.ndarray = ROWS) -> float:
    """Return the worker's part of a loss of these rows, of which it has the share of 0.25."""

    @tf.function(input_signature=[tf.TensorSpec([None, 2])])
    def step(x: Any) -> Any:
        loss_parts.begin(tf.constant(SHARE))
        try:
            return loss_parts.as_part(loss(x))
        finally:
            loss_parts.begin(None)

    return float(step(rows))


@pytest.mark.parametrize(
    ("loss", "factor"),
    [
        (lambda x: tf.reduce_mean(x), SHARE),
        (lambda x: tf.reduce_mean(tf.reduce_sum(x, axis=-1)), SHARE),
        (lambda x: keras.ops.mean(keras.losses.mean_squared_error(x, 0 * x)), SHARE),
        (lambda x: tf.reduce_sum(x), 1),
        (lambda x: tf.reduce_sum(tf.reduce_mean(x, axis=-1)), 1),
        (lambda x: tf.reduce_sum(x) / tf.cast(tf.shape(x)[0], tf.float32), SHARE),
        (lambda x: tf.reduce_sum(x) / 64.0, 1),
        (lambda x: tf.reduce_sum(x) / tf.cast(tf.size(x), tf.float32), SHARE),
        (lambda x: tf.reduce_sum(x) / tf.cast(tf.shape(x)[1], tf.float32), 1),
        (lambda x: tf.reduce_sum(x) / tf.cast(tf.shape(x)[-1], tf.float32), 1),
        (lambda x: tf.reduce_sum(x) / tf.cast(tf.shape(WEIGHTS)[0], tf.float32), 1),
        (lambda x: 0.5 * tf.reduce_mean(x) * WEIGHT, SHARE),
        (lambda x: -tf.reduce_mean(x), SHARE),
        (lambda x: tf.square(WEIGHT), SHARE),
        (lambda x: loss_parts.mark_part(3.0 * tf.reduce_mean(x)), 1),
        (lambda x: tf.stop_gradient(tf.reduce_mean(x)), SHARE),
    ],
)
def test_one_term(loss: Callable[[Any], Any], factor: float) -> None:
    assert part(loss) == pytest.approx(factor * float(loss_of(loss)))


def loss_of(loss: Callable[[Any], Any]) -> Any:
    loss_parts.begin(tf.constant(SHARE))
    try:
        return loss(tf.constant(ROWS))
    finally:
        loss_parts.begin(None)


def test_terms_of_several_kinds() -> None:
    def loss(x: Any) -> Any:
        return keras.ops.sum([tf.reduce_sum(x) - 2.0 * tf.reduce_mean(x), tf.square(WEIGHT)])

    assert part(loss) == pytest.approx(ROWS.sum() + SHARE * (4.0 - 2 * ROWS.mean()))


@pytest.mark.parametrize(
    "loss",
    [lambda x: tf.sqrt(tf.reduce_mean(x)), lambda x: tf.reduce_mean(x) * tf.reduce_sum(x)],
    ids=["root of a mean", "product"],
)
def test_what_is_no_sum_of_terms_counts_as_a_mean_and_is_told(
    loss: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(PROCESS, "told", set())
    monkeypatch.setattr(PROCESS, "listeners", [lambda about, text, **_: told.append(f"{about}: {text}")])
    assert part(loss) == pytest.approx(SHARE * float(loss(tf.constant(ROWS))))
    assert len(told) == 1 and told[0].startswith("loss: a term of the loss is ")
    assert told[0].endswith("counts as a mean")


Y = tf.constant([[1.0], [0.0], [3.0], [2.0], [5.0]])
X = tf.constant(np.arange(10, dtype="float32").reshape(5, 2))


def wrong(x: Any, y: Any) -> Any:
    return tf.square(x @ WEIGHTS - y)


def norm() -> Any:
    return tf.reduce_sum(tf.square(WEIGHTS))


def mixed(x: Any, y: Any) -> Any:
    return tf.reduce_mean(wrong(x, y)) + 0.1 * tf.reduce_sum(wrong(x, y))


@pytest.mark.parametrize(
    "losses",
    [
        lambda x, y: tf.reduce_mean(wrong(x, y)) * norm() + 0.1 * tf.reduce_sum(wrong(x, y)) + 0.5 * norm(),
        lambda x, y: mixed(x, y) * norm(),
        lambda x, y: -3.0 * mixed(x, y) / norm(),
        lambda x, y: [tf.reduce_mean(wrong(x, y)), {"all": tf.reduce_sum(wrong(x, y))}, norm()],
        lambda x, y: [0.1 * wrong(x, y), tf.reduce_mean(wrong(x, y))],
        lambda x, y: tf.reduce_sum(wrong(x, y)),
    ],
    ids=["sum", "product", "quotient", "several", "of rows", "as it is"],
)
def test_the_parts_of_gradients_add_up_to_those_of_one_process(losses: Callable[[Any, Any], Any]) -> None:
    from tfmuster.keras_compat import install

    install()

    @tf.function(reduce_retracing=True, input_signature=[tf.TensorSpec([None, 2]), tf.TensorSpec([None, 1])])
    def gradient(x: Any, y: Any) -> Any:
        loss_parts.begin(tf.cast(tf.shape(x)[0], tf.float32) / 5.0)
        try:
            with tf.GradientTape() as tape:
                value = losses(x, y)
            return tape.gradient(value, WEIGHTS)
        finally:
            loss_parts.begin(None)

    with tf.GradientTape() as tape:
        value = losses(X, Y)
    expected = tape.gradient(value, WEIGHTS)
    parts = gradient(X[:3], Y[:3]) + gradient(X[3:], Y[3:])
    np.testing.assert_allclose(parts, expected, rtol=1e-5)

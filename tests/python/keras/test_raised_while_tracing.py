"""Errors of tfmuster that are raised where TensorFlow or Keras would make another error of them."""

from __future__ import annotations

import pytest

import tfmuster
from tfmuster.errors import StrategyError

tf = pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras")


def refuse(x: object) -> object:
    raise StrategyError("It can't be done.", fix="leave it", strategy="default", reason="test")


class Refuses(keras.layers.Layer):
    def call(self, x: object) -> object:
        return refuse(x)

    def compute_output_spec(self, x: keras.KerasTensor) -> keras.KerasTensor:
        return keras.KerasTensor(x.shape, x.dtype)


def in_a_function() -> object:
    return tf.function(refuse)(tf.ones(2))


def in_a_function_of_a_function() -> object:
    return tf.function(lambda x: tf.function(refuse)(x))(tf.ones(2))


def in_a_layer() -> object:
    return Refuses()(tf.ones(2))


def in_a_step() -> object:
    model = keras.Sequential([Refuses(), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model.fit(tf.ones((4, 2)), tf.ones((4, 1)), verbose=0)


@pytest.mark.parametrize("place", [in_a_function, in_a_function_of_a_function, in_a_layer, in_a_step])
def test_an_error_of_tfmuster_stays_as_it_is(place: object) -> None:
    with pytest.raises(tfmuster.TfmusterError) as raised:
        place()  # type: ignore[operator]
    assert type(raised.value) is StrategyError
    assert str(raised.value) == "It can't be done.\n  to do: leave it"
    assert raised.value.fields["reason"] == "test"

"""The four models: the shapes and settings of their documents, equal starts, refusals, and learning."""

from __future__ import annotations

import os

import numpy as np
import pytest

from tfmuster.digits.models import mnist_model
from tfmuster.digits.recipes import RECIPES
from tfmuster.errors import ModelError

REAL = os.environ.get("TFMUSTER_MNIST")


def described(model):
    skipped = ("Reshape", "Flatten", "Rescaling", "InputLayer")
    return [
        (
            type(layer).__name__,
            getattr(layer, "filters", None) or getattr(layer, "units", None) or getattr(layer, "rate", None),
            layer.activation.__name__ if hasattr(layer, "activation") else None,
        )
        for layer in model.layers
        if type(layer).__name__ not in skipped
    ]


CONV, POOL = "Conv2D", ("MaxPooling2D", None, None)
LAYERS = {
    "cnn": [(CONV, 32, "relu"), POOL, ("Dense", 64, "relu"), ("Dense", 10, "linear")],
    "deep_cnn": [
        (CONV, 32, "relu"),
        (CONV, 64, "relu"),
        POOL,
        ("Dense", 64, "relu"),
        ("Dense", 10, "softmax"),
    ],
    "mlp": [
        ("Dense", 256, "relu"),
        ("Dropout", 0.4, None),
        ("Dense", 128, "relu"),
        ("Dropout", 0.3, None),
        ("Dense", 10, "softmax"),
    ],
    "softmax": [("Dense", 10, "linear")],
}


@pytest.mark.parametrize("name", RECIPES)
def test_layers_and_settings(name):
    model = mnist_model(name, recipe="document")
    chosen = RECIPES[name]
    assert described(model) == LAYERS[name]
    settings = model.optimizer.get_config()
    assert settings["learning_rate"] == pytest.approx(chosen.learning_rate)
    assert type(model.optimizer).__name__.lower() == chosen.optimizer
    assert settings.get("amsgrad", False) is (name == "deep_cnn")
    loss = model.loss.get_config()
    assert loss["from_logits"] is (LAYERS[name][-1][2] == "linear")
    assert type(model.loss).__name__.startswith("Sparse") is not chosen.one_hot
    assert (model.input_shape, model.output_shape) == ((None, 28, 28), (None, 10))


def test_the_quick_recipe_has_its_own_settings():
    quick = mnist_model("cnn")
    assert type(quick.optimizer).__name__ == "Adam"
    assert described(quick) == LAYERS["cnn"]
    assert all(not weights.any() for weights in mnist_model("softmax", seed=0).get_weights())
    with pytest.raises(ModelError, match="quick, document") as caught:
        mnist_model("cnn", recipe="fast")
    assert caught.value.fields["reason"] == "recipe"


def test_raw_digits_are_scaled_inside():
    model = mnist_model("softmax", seed=0, initial_weights="random_normal")
    x = np.random.default_rng(0).integers(0, 256, (5, 28, 28), np.uint8)
    kernel, bias = model.get_weights()
    expected = (x.reshape(5, 784) / 255) @ kernel + bias
    np.testing.assert_allclose(model.predict(x, verbose=0), expected, atol=1e-4)


@pytest.mark.parametrize("name", RECIPES)
def test_a_seed_fixes_the_start(name):
    first, again, other = (
        mnist_model(name, seed=seed, recipe="document").get_weights() for seed in (3, 3, 4)
    )
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


def test_softmax_starts_as_in_the_document_or_from_zeros():
    kernel, bias = mnist_model("softmax", seed=0, recipe="document").get_weights()
    assert kernel.std() == pytest.approx(1, abs=0.05) and bias.std() > 0.2
    assert all(not w.any() for w in mnist_model("softmax", initial_weights="zeros").get_weights())


def test_dropout_off_and_other_rates():
    assert [kind for kind, _, _ in described(mnist_model("mlp", dropout=False))] == ["Dense"] * 3
    rates = [value for kind, value, _ in described(mnist_model("mlp", dropout=(0.1, 0))) if kind == "Dropout"]
    assert rates == [0.1]


def test_optimizer_by_name_or_ready_made():
    import tensorflow as tf

    assert mnist_model("cnn", optimizer="Adam", learning_rate=0.5).optimizer.get_config()[
        "learning_rate"
    ] == pytest.approx(0.5)
    assert mnist_model("deep_cnn", optimizer="adam").optimizer.get_config()["amsgrad"] is True
    assert type(mnist_model("deep_cnn", optimizer="sgd").optimizer).__name__ == "SGD"
    ready = tf.keras.optimizers.Lion()
    assert mnist_model("cnn", optimizer=ready).optimizer is ready


def test_execution_options_reach_keras():
    model = mnist_model("cnn", gradient_accumulation_steps=4, steps_per_execution=3)
    assert model.optimizer.gradient_accumulation_steps == 4
    assert model.steps_per_execution == 3
    assert model.jit_compile is False
    assert mnist_model("cnn", gradient_accumulation_steps=1).optimizer.gradient_accumulation_steps is None


@pytest.mark.parametrize(
    "arguments,reason",
    [
        ({"name": "resnet"}, "unknown-model"),
        ({"optimizer": "sdg"}, "optimizer"),
        ({"optimizer": object()}, "optimizer"),
        ({"learning_rate": 0}, "learning-rate"),
        ({"learning_rate": float("nan")}, "learning-rate"),
        ({"gradient_accumulation_steps": 0}, "gradient-accumulation"),
        ({"seed": -1}, "seed"),
        ({"seed": "one"}, "seed"),
        ({"dropout": (0.1, 0.1)}, "dropout"),
        ({"name": "mlp", "dropout": 0.5}, "dropout"),
        ({"name": "mlp", "dropout": (0.5, 1.0)}, "dropout"),
        ({"initial_weights": "zeros"}, "initial-weights"),
        ({"name": "softmax", "initial_weights": "ones"}, "initial-weights"),
    ],
)
def test_unusable_arguments_are_refused(arguments, reason):
    with pytest.raises(ModelError) as caught:
        mnist_model(**arguments)
    assert caught.value.fields["reason"] == reason


def test_settings_of_a_ready_optimizer_are_its_own():
    import tensorflow as tf

    with pytest.raises(ModelError, match="already has its settings") as caught:
        mnist_model("cnn", optimizer=tf.keras.optimizers.SGD(), learning_rate=0.1)
    assert "learning_rate" in caught.value.found


# Shortened forms of `make accuracy`; the floors lie two points below what one process reached (seeds 0 to 2).
LEARNS = {
    "cnn": ({"optimizer": "adam"}, 128, 2, 0.91),
    "deep_cnn": ({}, 100, 1, 0.91),
    "mlp": ({}, 256, 3, 0.87),
    "softmax": ({"initial_weights": "zeros"}, 100, 5, 0.82),
}


@pytest.mark.slow
@pytest.mark.skipif(not REAL, reason="TFMUSTER_MNIST names no real digits")
@pytest.mark.parametrize("name", RECIPES)
def test_learns_real_digits(name):
    from tfmuster.digits.datasets import mnist
    from tfmuster.training.batches import batches

    options, global_batch, epochs, floor = LEARNS[name]
    digits = mnist(REAL)
    x, y = digits.x_train[:10_000], digits.y_train[:10_000]
    model = mnist_model(name, seed=0, recipe="document", **options)
    training = batches(x, y, global_batch, seed=0, repeated=True, one_hot=RECIPES[name].one_hot)
    model.fit(training, epochs=epochs, steps_per_epoch=-(-10_000 // global_batch), shuffle=False, verbose=0)
    right = model.predict(digits.x_test, verbose=0, batch_size=1000).argmax(1) == digits.y_test
    assert right.mean() > floor

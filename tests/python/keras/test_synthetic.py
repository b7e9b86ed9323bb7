"""The synthetic digits are neither trivial nor impossible to learn."""

from __future__ import annotations

import pytest

from tfmuster.digits.datasets import synthetic


@pytest.mark.slow
def test_cnn_needs_training_and_three_epochs_are_enough():
    from tfmuster.digits.models import mnist_model
    from tfmuster.training.batches import batches

    digits = synthetic()
    model = mnist_model("cnn", optimizer="adam", learning_rate=0.001, seed=0)
    before = model.evaluate(digits.x_test, digits.y_test, verbose=0)[1]
    training = batches(digits.x_train, digits.y_train, 64, seed=0, repeated=True)
    model.fit(training, epochs=3, steps_per_epoch=157, verbose=0)
    after = model.evaluate(digits.x_test, digits.y_test, verbose=0)[1]
    assert before < 0.20
    assert 0.90 < after < 0.995

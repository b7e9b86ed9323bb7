"""The linear rule with warm-up, as Keras follows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.launching import tfmuster
from tfmuster.training.learning_rates import scaled_learning_rate


def test_it_rises_from_one_workers_to_that_of_all_and_stays() -> None:
    schedule = scaled_learning_rate(0.01, 4, warmup_steps=10)
    rates = [float(schedule(step)) for step in range(30)]
    assert rates[0] == pytest.approx(0.01)
    assert rates[5] == pytest.approx(0.025)
    assert rates[10:] == pytest.approx([0.04] * 20)


def test_a_model_trained_with_it_is_loaded_by_plain_keras(tmp_path: Path) -> None:
    arguments = ["--recipe", "document", "--dataset", "synthetic", "--epochs", 2]
    arguments += ["--scale-lr", "--gradient-dtype", "float16"]
    done = tfmuster(
        *("launch", "-n", 2, "--", "tfmuster", "train", "mnist", *arguments, "--save", "m.keras"),
        cwd=tmp_path,
        limit=120,
    )
    assert done.returncode == 0, done.stderr
    import keras

    model = keras.models.load_model(tmp_path / "m.keras")
    # The cnn's 0.001 times two workers, ten steps on.
    assert float(model.optimizer.learning_rate) == pytest.approx(0.002)


def test_another_optimizer_needs_a_learning_rate(tmp_path: Path) -> None:
    arguments = ["--dataset", "synthetic", "--optimizer", "rmsprop", "--scale-lr"]
    done = tfmuster("train", "mnist", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert "Only a learning rate that is a positive number can be scaled" in done.stderr

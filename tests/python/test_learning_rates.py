"""The linear rule with warm-up."""

from __future__ import annotations

from pathlib import Path

import pytest

from launching import tfmuster
from tfmuster.errors import ModelError
from tfmuster.training.learning_rates import scaled_learning_rate


@pytest.mark.tensorflow
def test_it_rises_from_one_workers_to_that_of_all_and_stays() -> None:
    schedule = scaled_learning_rate(0.01, 4, warmup_steps=10)
    rates = [float(schedule(step)) for step in range(30)]
    assert rates[0] == pytest.approx(0.01)
    assert rates[5] == pytest.approx(0.025)
    assert rates[10:] == pytest.approx([0.04] * 20)


def test_one_worker_has_nothing_to_scale() -> None:
    assert scaled_learning_rate(0.01, 1, warmup_steps=10) == 0.01


@pytest.mark.parametrize("rate", [None, 0, -1, True, "0.1"])
def test_what_is_no_number_is_refused(rate: object) -> None:
    with pytest.raises(ModelError, match="positive number") as error:
        scaled_learning_rate(rate, 2, warmup_steps=1)
    assert error.value.fields["reason"] == "learning-rate"


@pytest.mark.cluster
def test_a_model_trained_with_it_is_loaded_by_plain_keras(tmp_path: Path) -> None:
    arguments = ["--dataset", "synthetic", "--epochs", 2, "--scale-lr", "--gradient-dtype", "float16"]
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
    arguments = ["--dataset", "synthetic", "--optimizer", "adam", "--scale-lr"]
    done = tfmuster("train", "mnist", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert "Only a learning rate that is a positive number can be scaled" in done.stderr

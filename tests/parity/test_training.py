"""One seed, one history: trained from R and from Python."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tfmuster import train_mnist
from tfmuster.digits.datasets import synthetic


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("model", "recipe"), [("cnn", "document"), ("cnn", "quick"), ("mlp", "document"), ("softmax", "document")]
)
def test_one_seed_gives_one_history(r: Callable[..., Any], model: str, recipe: str) -> None:
    digits = synthetic(seed=1, train=640, test=100)
    python = train_mnist(
        model, dataset=digits, epochs=2, steps_per_epoch=4, seed=7, verbose=False, recipe=recipe
    )
    from_r = json.loads(r("training_from_r", model, 2, 7, recipe))
    history: dict[str, list[float]] = {}
    for row in from_r["history"]:
        name = row["metric"] if row["data"] == "training" else f"val_{row['metric']}"
        history.setdefault(name, []).append(row["value"])
        assert row["epoch"] == len(history[name])
    assert history.keys() == python.history.keys()
    for name, values in python.history.items():
        assert history[name] == pytest.approx(values, rel=1e-6), name
    assert from_r["accuracy"] == pytest.approx(python.test_accuracy, rel=1e-6)
    assert from_r["loss"] == pytest.approx(python.test_loss, rel=1e-6)

"""The settings of the four models are those of their documents."""

from __future__ import annotations

import pytest

from tfmuster.digits.recipes import RECIPES, recipe
from tfmuster.errors import ModelError


def test_recipes_are_the_documents():
    defaults = {
        name: (r.document, r.batch_size, r.epochs, r.steps_per_epoch, r.optimizer, r.learning_rate)
        for name, r in RECIPES.items()
    }
    assert defaults == {
        "cnn": ("000", 64, 3, 5, "sgd", 0.001),
        "deep_cnn": ("003", 50, 50, 50, "adam", 0.001),
        "mlp": ("004", 128, 10, 0, "rmsprop", 0.001),
        "softmax": ("001", 100, 50, 0, "sgd", 0.01),
    }
    assert RECIPES["mlp"].one_hot and RECIPES["mlp"].validation_split == 0.2


@pytest.mark.parametrize("name", ["cnn2", "", None, ["cnn"]])
def test_unknown_model_lists_the_known_ones(name):
    with pytest.raises(ModelError, match="cnn, deep_cnn, mlp, softmax") as caught:
        recipe(name)
    assert caught.value.fields["reason"] == "unknown-model"

"""The settings with which the MNIST models are trained unless other ones are given.

Each model has two recipes. ``quick``, the default, trains in well under a minute to a result worth showing.
``document`` has the numbers of the model's source document, which some of these documents chose to show a
program and not a result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from ..errors import ModelError
from ..words import Value, did_you_mean

_Entry = TypeVar("_Entry")


@dataclass(frozen=True)
class Recipe:
    """The default training settings of a model. Most are arguments of `train_mnist`."""

    #: Number of the document in the project's references.
    document: str
    batch_size: int
    epochs: int
    steps_per_epoch: int
    optimizer: str
    learning_rate: float
    #: Whether the model ends in logits; otherwise it ends in a softmax.
    from_logits: bool = False
    #: Whether labels are one-hot float32 (batch, 10) or integers (batch,).
    one_hot: bool = False
    validation_split: float = 0.0
    shuffle: bool = True
    #: Further arguments of the optimizer.
    optimizer_options: Mapping[str, object] = field(default_factory=dict)
    #: ``softmax`` only.
    initial_weights: str = "random_normal"


#: The recipes of the documents, by the names of the models.
RECIPES: Mapping[str, Recipe] = {
    "cnn": Recipe(
        document="000",
        batch_size=64,
        epochs=3,
        steps_per_epoch=5,
        optimizer="sgd",
        learning_rate=0.001,
        from_logits=True,
    ),
    "deep_cnn": Recipe(
        document="003",
        batch_size=50,
        epochs=50,
        steps_per_epoch=50,
        optimizer="adam",
        learning_rate=0.001,
        optimizer_options={"amsgrad": True},
    ),
    "mlp": Recipe(
        document="004",
        batch_size=128,
        epochs=10,
        steps_per_epoch=0,
        optimizer="rmsprop",
        learning_rate=0.001,
        one_hot=True,
        validation_split=0.2,
    ),
    "softmax": Recipe(
        document="001",
        batch_size=100,
        epochs=50,
        steps_per_epoch=0,
        optimizer="sgd",
        learning_rate=0.01,
        from_logits=True,
    ),
}

#: The recipes that train quickly to a good result.
QUICK: Mapping[str, Recipe] = {
    "cnn": replace(RECIPES["cnn"], optimizer="adam", epochs=3, steps_per_epoch=200),
    "deep_cnn": replace(RECIPES["deep_cnn"], batch_size=64, epochs=3, steps_per_epoch=80),
    "mlp": RECIPES["mlp"],
    "softmax": replace(
        RECIPES["softmax"], epochs=3, steps_per_epoch=200, learning_rate=0.3, initial_weights="zeros"
    ),
}

#: The recipes of all models, by the name of the recipe.
BY_NAME: Mapping[str, Mapping[str, Recipe]] = {"quick": QUICK, "document": RECIPES}


def recipe(name: str, kind: str = "quick") -> Recipe:
    """Return a model's settings in a recipe, ``quick`` or ``document``. Raises ModelError for others."""
    recipes = _entry(BY_NAME, kind, "recipe", "leave it out for the quick one", "recipe")
    return _entry(recipes, name, "model", 'choose one of them, such as "cnn"', "unknown-model")


def _entry(table: Mapping[str, _Entry], name: str, what: str, fix: str, reason: str) -> _Entry:
    try:
        return table[name]
    except (KeyError, TypeError):
        raise ModelError(
            f"There is no {what} of this name; the {what}s are {', '.join(table)}.",
            found=str(Value(name)),
            fix=did_you_mean(name, table) or fix,
            reason=reason,
        ) from None

"""The settings with which the MNIST models are trained unless other ones are given.

Each model has two recipes. ``quick``, the default, trains in well under a minute to a result worth showing.
``document`` has the numbers of the model's source document, which some of these documents chose to show a
program and not a result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..errors import ModelError
from ..words import Value, did_you_mean


@dataclass(frozen=True)
class Recipe:
    """The default training settings of a model.

    Attributes
    ----------
    document : str
        Number of the document in the project's references.
    summary : str
        One-line description of the model.
    batch_size : int
        Images per replica and step; the global batch is this times the number of replicas.
    epochs, steps_per_epoch : int
        Length of the training. ``steps_per_epoch`` 0 means the whole training set in each epoch.
    optimizer, learning_rate, optimizer_options
        Keras name, learning rate, and further arguments of the optimizer.
    loss : str
        Keras name of the loss.
    from_logits : bool
        Whether the model ends in logits; otherwise it ends in a softmax.
    one_hot : bool
        Whether labels are one-hot float32 (batch, 10) or integers (batch,).
    validation_split : float
        Share of the training set, from its end, that is used for validation.
    shuffle : bool
        Whether each epoch has a new random order.
    initial_weights : str
        ``softmax`` only: its first weights, ``random_normal`` (standard deviation 1) or ``zeros``.
    """

    document: str
    summary: str
    batch_size: int
    epochs: int
    steps_per_epoch: int
    optimizer: str
    learning_rate: float
    loss: str = "sparse_categorical_crossentropy"
    from_logits: bool = False
    one_hot: bool = False
    validation_split: float = 0.0
    shuffle: bool = True
    optimizer_options: Mapping[str, Any] = field(default_factory=dict)
    initial_weights: str = "random_normal"


#: The recipes of the documents, by the names of the models.
RECIPES: Mapping[str, Recipe] = {
    "cnn": Recipe(
        document="000",
        summary="Conv 32 3x3 relu, max-pool, flatten, dense 64 relu, dense 10 (logits)",
        batch_size=64,
        epochs=3,
        steps_per_epoch=5,
        optimizer="sgd",
        learning_rate=0.001,
        from_logits=True,
    ),
    "deep_cnn": Recipe(
        document="003",
        summary="Conv 32, Conv 64 (3x3 relu), max-pool, flatten, dense 64 relu, softmax 10",
        batch_size=50,
        epochs=50,
        steps_per_epoch=50,
        optimizer="adam",
        learning_rate=0.001,
        optimizer_options={"amsgrad": True},
    ),
    "mlp": Recipe(
        document="004",
        summary="784 - 256 relu - dropout .4 - 128 relu - dropout .3 - softmax 10",
        batch_size=128,
        epochs=10,
        steps_per_epoch=0,
        optimizer="rmsprop",
        learning_rate=0.001,
        loss="categorical_crossentropy",
        one_hot=True,
        validation_split=0.2,
    ),
    "softmax": Recipe(
        document="001",
        summary="one linear layer, softmax regression (logits)",
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
    """Return the settings of the model called ``name`` in a recipe, ``quick`` or ``document``.

    Raises
    ------
    ModelError
        There is no such model (reason ``unknown-model``) or recipe (reason ``recipe``); the message lists
        those that there are.
    """
    try:
        recipes = BY_NAME[kind]
    except (KeyError, TypeError):
        raise ModelError(
            f"There is no recipe of this name; the recipes are {', '.join(BY_NAME)}.",
            found=str(Value(kind)),
            fix=did_you_mean(kind, BY_NAME) or "leave it out for the quick one",
            reason="recipe",
        ) from None
    try:
        return recipes[name]
    except (KeyError, TypeError):
        raise ModelError(
            f"There is no model of this name; the models are {', '.join(RECIPES)}.",
            found=str(Value(name)),
            fix=did_you_mean(name, RECIPES) or 'choose one of them, such as "cnn"',
            reason="unknown-model",
        ) from None

"""Four models for MNIST, compiled with the optimizer and loss of a recipe.

Every model takes digits as they are stored, uint8 of shape (batch, 28, 28), and scales them to 0..1 on the
device. So the input stays small until then, and plain Keras can use a saved model on raw digits.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import ModelError
from ..system.tensorflow_import import import_tensorflow
from ..training.batches import NUM_CLASSES
from ..words import Argument, Value, Words, did_you_mean
from .recipes import Recipe
from .recipes import recipe as recipe_of

if TYPE_CHECKING:
    import keras

_MLP_DROPOUT = (0.4, 0.3)
_INITIAL_WEIGHTS = ("random_normal", "zeros")


def mnist_model(
    name: str = "cnn",
    *,
    optimizer: str | keras.optimizers.Optimizer | None = None,
    learning_rate: float | None = None,
    dropout: bool | tuple[float, float] = True,
    seed: int | None = None,
    initial_weights: str | None = None,
    gradient_accumulation_steps: int | None = None,
    steps_per_execution: int | None = None,
    jit_compile: bool = False,
    recipe: str = "quick",
) -> keras.Model:
    """Create a compiled Keras model for 28 x 28 digits. Call it inside ``strategy.scope()``.

    Parameters
    ----------
    name : {"cnn", "deep_cnn", "mlp", "softmax"}
        Name of the model.
    optimizer : str or keras.Optimizer, optional
        A Keras name such as ``"adam"``, or an optimizer object (then without ``learning_rate`` and
        ``gradient_accumulation_steps``). Default: the recipe's optimizer with its options.
    learning_rate : float, optional
        Default: the recipe's for the recipe's optimizer, Keras's own for another one.
    dropout : bool or (float, float)
        ``mlp`` only: ``False`` for no dropout, or the two rates.
    seed : int, optional
        Seed of initial weights and dropout, so that every worker and a single process start equal. By default
        they are random; under a MultiWorkerMirroredStrategy all workers get the chief's initial weights.
    initial_weights : {"random_normal", "zeros"}, optional
        ``softmax`` only. ``random_normal`` has the standard deviation 1. Default: the recipe's.
    gradient_accumulation_steps : int, optional
        Update the weights once in this many steps, with the mean of their gradients (Keras 3).
    steps_per_execution : int, optional
        Steps that Keras runs in one call of its training function. Default: chosen by speed with several
        workers, if no callback needs single batches; otherwise 1.
    jit_compile : bool
        Compile the training step with XLA. On CPUs, most models are slower with it.
    recipe : {"quick", "document"}
        The defaults of the other arguments: ``quick`` soon trains to a good result, ``document`` has the
        numbers of the model's source document; see :mod:`tfmuster.digits.recipes`.

    Returns
    -------
    keras.Model
        Input uint8 (batch, 28, 28), values 0 to 255; output float32 (batch, 10). Metric: ``accuracy``.

    Raises
    ------
    ModelError
        The model, the optimizer, or an option is unknown, or an option does not apply (field ``reason``).
    """
    # Use tf.keras, not keras, so that the models also work with tf-keras 2 (TF_USE_LEGACY_KERAS=1).
    keras = import_tensorflow().keras
    settings = recipe_of(name, recipe)
    if initial_weights is not None and (name != "softmax" or initial_weights not in _INITIAL_WEIGHTS):
        raise ModelError(
            'initial_weights must be "random_normal" or "zeros", and applies only to the model "softmax".',
            found=Words("{} for the model {}", Value(initial_weights), Value(name)),
            reason="initial-weights",
        )
    rates = _dropout_rates(dropout)
    if name != "mlp" and not isinstance(dropout, bool):
        raise ModelError(
            'Only the model "mlp" has dropout layers.',
            found=Words("dropout rates for the model {}", Value(name)),
            reason="dropout",
        )
    model = keras.Sequential(
        [
            keras.Input(shape=(28, 28), dtype="uint8", name="digit"),
            keras.layers.Rescaling(1 / 255, name="scale"),
            *_layers(keras, name, _seeds(seed), rates, initial_weights or settings.initial_weights),
        ],
        name=name,
    )
    losses = keras.losses
    loss = losses.CategoricalCrossentropy if settings.one_hot else losses.SparseCategoricalCrossentropy
    model.compile(
        optimizer=_optimizer(keras, settings, optimizer, learning_rate, gradient_accumulation_steps),
        loss=loss(from_logits=settings.from_logits),
        metrics=["accuracy"],
        jit_compile=jit_compile,
        **({} if steps_per_execution is None else {"steps_per_execution": steps_per_execution}),
    )
    return model


def _layers(
    keras: ModuleType, name: str, seeds: list[int | None], rates: tuple[float, float], initial_weights: str
) -> list[keras.layers.Layer]:
    layers, initializers = keras.layers, keras.initializers

    def dense(units: int, activation: str | None, seed: int | None) -> Any:
        kernel = initializers.GlorotUniform(seed=seed)
        return layers.Dense(units, activation=activation, kernel_initializer=kernel)

    def conv(filters: int, seed: int | None) -> Any:
        kernel = initializers.GlorotUniform(seed=seed)
        return layers.Conv2D(filters, 3, activation="relu", kernel_initializer=kernel)

    if name in ("cnn", "deep_cnn"):
        return [
            layers.Reshape((28, 28, 1)),
            conv(32, seeds[0]),
            *([conv(64, seeds[1])] if name == "deep_cnn" else []),
            layers.MaxPooling2D(2),
            layers.Flatten(),
            dense(64, "relu", seeds[2]),
            dense(NUM_CLASSES, None if name == "cnn" else "softmax", seeds[3]),
        ]
    if name == "mlp":
        return [
            layers.Flatten(),
            dense(256, "relu", seeds[0]),
            *([layers.Dropout(rates[0], seed=seeds[3])] if rates[0] else []),
            dense(128, "relu", seeds[1]),
            *([layers.Dropout(rates[1], seed=seeds[4])] if rates[1] else []),
            dense(NUM_CLASSES, "softmax", seeds[2]),
        ]
    if initial_weights == "zeros":
        kernel = bias = initializers.Zeros()
    else:
        kernel, bias = (initializers.RandomNormal(stddev=1.0, seed=seed) for seed in seeds[:2])
    return [
        layers.Flatten(),
        layers.Dense(NUM_CLASSES, kernel_initializer=kernel, bias_initializer=bias),
    ]


def _dropout_rates(dropout: bool | tuple[float, float]) -> tuple[float, float]:
    if isinstance(dropout, bool):
        return _MLP_DROPOUT if dropout else (0.0, 0.0)
    try:
        first, second = (float(rate) for rate in dropout)
        valid = 0 <= first < 1 and 0 <= second < 1
    except (TypeError, ValueError):
        valid = False
    if not valid:
        raise ModelError(
            Words(
                "dropout must be {}, {}, or two rates of at least 0 and less than 1.",
                Value(True),
                Value(False),
            ),
            found=str(Value(dropout)),
            reason="dropout",
        )
    return first, second


def _seeds(seed: int | None) -> list[int | None]:
    """Return five independent seeds: with one seed, layers of the same shape would start equal."""
    if seed is None:
        return [None] * 5
    try:
        words = np.random.SeedSequence(seed).generate_state(5)
    except (TypeError, ValueError):
        raise ModelError(
            "seed must be a whole number of at least 0.", found=str(Value(seed)), reason="seed"
        ) from None
    # tf-keras 2 accepts only seeds of up to 31 bits.
    return [int(word) >> 1 for word in words]


def _optimizer(
    keras: ModuleType,
    recipe: Recipe,
    optimizer: str | keras.optimizers.Optimizer | None,
    learning_rate: float | None,
    gradient_accumulation_steps: int | None,
) -> keras.optimizers.Optimizer:
    """Return an optimizer from its name or object and its settings, by default the recipe's."""
    options: dict[str, object] = {}
    if learning_rate is not None:
        if isinstance(learning_rate, (int, float)) and not learning_rate > 0:
            raise ModelError(
                "learning_rate must be more than 0.", found=str(Value(learning_rate)), reason="learning-rate"
            )
        options["learning_rate"] = learning_rate
    if gradient_accumulation_steps is not None:
        if gradient_accumulation_steps < 1:
            raise ModelError(
                "gradient_accumulation_steps must be at least 1.",
                found=str(Value(gradient_accumulation_steps)),
                reason="gradient-accumulation",
            )
        if gradient_accumulation_steps > 1:
            options["gradient_accumulation_steps"] = gradient_accumulation_steps
    name = optimizer or recipe.optimizer
    if not isinstance(name, str) and options:
        raise ModelError(
            "An optimizer object already has its settings.",
            found=f"an optimizer object together with {' and '.join(options)}",
            fix="set them on the optimizer, or pass its name instead",
            reason="optimizer",
        )
    try:
        if not isinstance(name, str):
            return keras.optimizers.get(name)
        if name.lower() == recipe.optimizer:
            options = {"learning_rate": recipe.learning_rate, **recipe.optimizer_options, **options}
        return keras.optimizers.get({"class_name": name.lower(), "config": options})
    except (TypeError, ValueError) as error:
        raise not_made(keras, name, options, error) from error


def not_made(keras: ModuleType, name: object, settings: Mapping[str, object], error: Exception) -> ModelError:
    """Return the error for an optimizer that Keras has refused to make with these settings."""
    known = [key.lower() for key, value in vars(keras.optimizers).items() if isinstance(value, type)]
    unknown = isinstance(name, str) and name.lower() not in known
    settings_text = ", ".join(str(Argument(*setting)) for setting in settings.items())
    first_line = str(error).strip().partition("\n")[0][:200]
    return ModelError(
        "Keras can't make this optimizer.",
        # Of a name that it does not know, Keras shows how it was looked up.
        found=str(Value(name)) if unknown else f"{Value(name)} with {settings_text}: {first_line}",
        fix=did_you_mean(name, known if unknown else ())
        or 'use a Keras name such as "sgd", "adam", "adamw" or "rmsprop", and values that it accepts',
        reason="optimizer",
    )

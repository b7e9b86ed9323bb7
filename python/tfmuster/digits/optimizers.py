"""Make the optimizer of a training from its name or object and its settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import ModelError
from ..words import Argument, Value, did_you_mean


def make_optimizer(
    keras: Any,
    usual: tuple[str, Mapping[str, Any]],
    optimizer: Any,
    learning_rate: float | None,
    gradient_accumulation_steps: int | None,
) -> Any:
    """Return an optimizer. `usual` is the model's own: its name and settings."""
    options: dict[str, Any] = {}
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
    name = optimizer or usual[0]
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
        if name.lower() == usual[0]:
            options = {**usual[1], **options}
        return keras.optimizers.get({"class_name": name.lower(), "config": options})
    except (TypeError, ValueError) as error:
        raise not_made(keras, name, options, error) from error


def not_made(keras: Any, name: Any, settings: Mapping[str, Any], error: Exception) -> ModelError:
    """Return the error for an optimizer that Keras has refused to make with these settings."""
    known = _optimizers(keras)
    shown = ", ".join(str(Argument(*each)) for each in settings.items())
    first_line = str(error).strip().partition("\n")[0][:200]
    unknown = isinstance(name, str) and name.lower() not in known
    return ModelError(
        "Keras can't make this optimizer.",
        # Of a name that it does not know, Keras shows how it was looked up.
        found=str(Value(name)) if unknown else f"{Value(name)} with {shown}: {first_line}",
        fix=did_you_mean(name, known if unknown else ())
        or 'use a Keras name such as "sgd", "adam", "adamw" or "rmsprop", and values that it accepts',
        reason="optimizer",
    )


def _optimizers(keras: Any) -> list[str]:
    """Return the names of Keras's optimizers."""
    return [name.lower() for name, value in vars(keras.optimizers).items() if isinstance(value, type)]

"""Compute the batch size, steps, and input pipelines of one training on digits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..errors import DataError, ModelError
from ..words import Value
from .recipes import Recipe


@dataclass(frozen=True)
class Plan:
    """The numbers of one training, with defaults filled in."""

    batch_size: int
    global_batch_size: int
    epochs: int
    steps_per_epoch: int
    validation_rows: int
    seed: int


def make_plan(
    defaults: Recipe,
    rows: int,
    replicas: int,
    *,
    batch_size: int | None,
    epochs: int | None,
    steps_per_epoch: int | None,
    validation_split: float | None,
    seed: int,
) -> Plan:
    """Fill in the recipe's values for missing arguments; a step takes one batch from each of ``replicas``.

    Raises
    ------
    ModelError, DataError
        The validation split is invalid, or leaves no row to train on.
    """
    from ..keras_compat.rows import steps_in_epoch

    per_replica = defaults.batch_size if batch_size is None else batch_size
    split = defaults.validation_split if validation_split is None else validation_split
    if not 0 <= split < 1:
        raise ModelError(
            "validation_split must be at least 0 and less than 1.",
            found=str(Value(split)),
            reason="validation-split",
        )
    kept = int(rows * split)
    if rows - kept < 1:
        raise DataError("No row is left to train on.", found=f"{rows} rows", path=None, reason="empty")
    steps = defaults.steps_per_epoch if steps_per_epoch is None else steps_per_epoch
    return Plan(
        batch_size=per_replica,
        global_batch_size=per_replica * replicas,
        epochs=defaults.epochs if epochs is None else epochs,
        steps_per_epoch=steps or steps_in_epoch(rows - kept, per_replica * replicas),
        validation_rows=kept,
        seed=seed,
    )


def pipelines(
    digits: Any, plan: Plan, strategy: Any, *, shuffle: bool, one_hot: bool
) -> tuple[Any, Any, Any]:
    """Return the endless training set, the validation set or None, and the test set."""
    from ..training.batches import batches

    kept = len(digits.x_train) - plan.validation_rows
    common: dict[str, Any] = {"seed": plan.seed, "strategy": strategy, "one_hot": one_hot}
    train = batches(
        digits.x_train[:kept],
        digits.y_train[:kept],
        plan.global_batch_size,
        shuffle=shuffle,
        repeated=True,
        **common,
    )
    validation = (
        batches(digits.x_train[kept:], digits.y_train[kept:], plan.global_batch_size, shuffle=False, **common)
        if plan.validation_rows
        else None
    )
    # Evaluation stores no activations for gradients, so its batches can be larger.
    test = batches(
        digits.x_test,
        digits.y_test,
        max(plan.global_batch_size, 256 * (plan.global_batch_size // plan.batch_size)),
        shuffle=False,
        **common,
    )
    return train, validation, test

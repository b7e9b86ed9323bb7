"""What a checkpoint has of a model: the variables that its next step depends on, and its metrics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from . import checkpoint_files
from .checkpoint_data import says_data
from .checkpoint_files import Field
from .checkpoint_owner import check_owner, of_other_model, owner_of, says_owner, says_settings

#: Fields of a checkpoint from which a training can resume.
FIELDS = {
    **{name: Field(int) for name in ("epoch", "step", "state")},
    "history": Field(dict, inside=list),
    "of": Field(dict, also=says_owner),
    "data": Field(dict, also=says_data),
    "settings": Field(dict, also=says_settings),
}


def load_weights(model: Any, content: bytes, folder: Path) -> None:
    """Load the weights in a checkpoint's content into a compiled model; `folder` is named in an error.

    Raises
    ------
    CheckpointError
        The checkpoint belongs to another model (reason ``other-model``) or job (``other-name``).
    """
    model.optimizer.build(model.trainable_variables)
    load(model, content, folder)


def load(model: Any, content: bytes, folder: Path) -> tuple[dict[str, Any], list[Any]]:
    """Load a model's state; return the position and the values of the metrics."""
    position, values = checkpoint_files.unpack(content)
    state = state_of(model)
    check_owner(position["of"], owner_of(model), folder)
    if [value.shape for value in values[: position["state"]]] != [tuple(each.shape) for each in state]:
        raise of_other_model(f"{position['state']} variables, here {len(state)}, or other shapes", folder)
    _assign(state, values[: len(state)])
    return position, values[len(state) :]


def state_of(model: Any) -> list[Any]:
    """Return the variables that the next step depends on: weights, random generators, optimizer state."""
    metrics = {id(variable) for variable in metrics_of(model)}
    return [v for v in [*model.variables, *model.optimizer.variables] if id(v) not in metrics]


def metrics_of(model: Any) -> list[Any]:
    """Return the variables of a model's metrics."""
    return [variable for metric in model.metrics for variable in metric.variables]


def read(variables: list[Any]) -> list[Any]:
    """Return the values of variables, as arrays."""
    return [np.asarray(variable.numpy()) for variable in variables]


def _assign(variables: list[Any], values: list[Any]) -> None:
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)

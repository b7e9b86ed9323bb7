"""Read the values that the workers of ``launch(function)`` returned."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .layout import CALL, file_stem


class Values(dict[str, Any]):
    """Each worker's value, by its task's name, such as ``worker 0``. The attribute `run` is the run."""

    def __init__(self, values: dict[str, Any], run: Any) -> None:
        super().__init__(values)
        self.run = run


class PackedModel:
    """A Keras model as bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data


def values_of(folder: Path, tasks: Iterable[str]) -> dict[str, Any]:
    """Return the function's value on each of the `tasks`, such as ``worker 0``, from its folder."""
    results = {task: read_result(folder / CALL / f"{file_stem(task)}.pkl") for task in tasks}
    return {task: _unpacked(result["value"]) for task, result in results.items() if result}


def error_of(folder: Path, task: str) -> BaseException | None:
    """Return the exception of a worker's function; None if it did not fail or can't be pickled."""
    result = read_result(folder / CALL / f"{file_stem(task)}.pkl")
    error = result.get("error")
    return error if isinstance(error, BaseException) else None


def returned_model(folder: Path, tasks: Iterable[str]) -> bytes | None:
    """Return the first model in the values that a function has returned, as bytes; None without one."""
    for task in tasks:
        result = read_result(folder / CALL / f"{file_stem(task)}.pkl")
        if (packed := _first_model(result.get("value"))) is not None:
            return packed.data
    return None


def _first_model(value: Any) -> PackedModel | None:
    if isinstance(value, PackedModel):
        return value
    if type(value) not in (dict, list, tuple):
        return None
    parts = value.values() if type(value) is dict else value
    return next((found for found in map(_first_model, parts) if found is not None), None)


def _unpacked(value: Any) -> Any:
    if isinstance(value, PackedModel):
        from ..keras_compat.saving import model_from_bytes

        return model_from_bytes(value.data)
    if type(value) is dict:
        return {key: _unpacked(part) for key, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(_unpacked, value))
    return value


def read_result(path: Path) -> dict[str, Any]:
    """Read the result that a worker wrote; empty if there is none."""
    try:
        value: dict[str, Any] = pickle.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    return value

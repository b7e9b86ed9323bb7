"""What the workers of ``launch(function)`` have returned."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .layout import CALL

if TYPE_CHECKING:
    from .run import Run


class Values(dict[str, Any]):
    """Each worker's value, by its task's name such as ``worker 0``; `run` is the run."""

    def __init__(self, values: dict[str, Any], run: Run) -> None:
        super().__init__(values)
        self.run = run


class _PackedModel:
    """A Keras model as bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data


def values_of(run: Run) -> Values:
    """What the workers of a run have returned."""
    names = [path.stem for path in run.log_paths().values()]
    results = {name.replace("-", " "): _read(run.path / CALL / f"{name}.pkl") for name in names}
    return Values({task: _unpacked(result["value"]) for task, result in results.items() if result}, run)


def error_of(run: Run, task: str) -> BaseException | None:
    """The exception that a worker's function failed with; None if it did not, or it can't travel."""
    result = _read(run.path / CALL / f"{task.replace(' ', '-')}.pkl")
    error = result.get("error")
    return error if isinstance(error, BaseException) else None


def _unpacked(value: Any) -> Any:
    if isinstance(value, _PackedModel):
        from ..keras_compat.saving import model_from_bytes

        return model_from_bytes(value.data)
    if type(value) is dict:
        return {key: _unpacked(part) for key, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(_unpacked, value))
    return value


def _read(path: Path) -> dict[str, Any]:
    """What `_write` has written; empty if there is nothing."""
    try:
        value: dict[str, Any] = pickle.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    return value

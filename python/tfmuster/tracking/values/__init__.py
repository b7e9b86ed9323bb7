"""Read the values that the workers of ``launch(function)`` returned.

On this machine, a worker writes its value as a pickle, and reading a pickle runs code. So the file must be
this user's own (:mod:`..record.ownership`). Workers on other machines write a form that runs nothing
(:mod:`.plain_values`), unless the user trusts their hosts. The file ``any-values``, which only the launching
session writes, says which of the two is read.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ...errors import LaunchError, TfmusterError
from ...system.regular_files import open_regular
from ...words import Argument, Code, Words
from ..record.layout import ANY_VALUES, CALL, file_stem
from ..record.ownership import check_own
from .plain_values import DamagedError, PackedModel, error_from, read_plain
from .rds import NotDataError, check_rds


class Values(dict[str, Any]):
    """Each worker's value, by its task's name, such as ``worker 0``. The attribute `run` is the run."""

    def __init__(self, values: dict[str, Any], run: object) -> None:
        super().__init__(values)
        self.run = run


def values_of(folder: Path, tasks: Iterable[str]) -> dict[str, Any]:
    """Return the function's value on each of the `tasks`, such as ``worker 0``, from its run directory.

    Raise TfmusterError if a value could run code, and its file is not this user's own or comes from another
    machine.
    """
    results = {task: _result(folder, task) for task in tasks}
    return {task: _unpacked(result["value"]) for task, result in results.items() if "value" in result}


def error_of(folder: Path, task: str) -> BaseException | None:
    """Return the exception of a worker's function; None if it did not fail or can't be sent.

    From another machine, only built-in exceptions can be sent, unless the user trusts it.
    """
    error = _result(folder, task).get("error")
    return error if isinstance(error, BaseException) else error_from(error)


def returned_model(folder: Path, tasks: Iterable[str]) -> bytes | None:
    """Return the first model in the values that a function has returned, as bytes; None without one."""
    for task in tasks:
        if (packed := _first_model(_result(folder, task).get("value"))) is not None:
            return packed.data
    return None


def check_r_result(folder: Path | str, file: Path | str) -> None:
    """Check a file with the value of an R function before R reads it, as `values_of` does."""
    path = Path(file)
    if _may_be_anything(Path(folder)):
        check_own(Path(folder), path)
        return
    try:
        check_rds(path)
    except NotDataError as error:
        raise _not_read(path, str(error)) from error


def check_returned(file: Path | str) -> None:
    """Raise LaunchError if what an R function returns to another machine, from this worker, is not data."""
    try:
        check_rds(file)
    except NotDataError as error:
        Path(file).unlink()
        raise LaunchError(
            "A function on other machines must return data: vectors, factors, data frames, models, or lists.",
            found=str(error),
            fix=Words(
                "Return its parts. If you trust all hosts of the job, pass {} to {}: reading other objects "
                "runs code from them on your machine.",
                Argument("trust_hosts", True),
                Code("launch()", "on_ssh() or its like"),
            ),
            reason="value",
        ) from None


def _result(folder: Path, task: str) -> dict[str, Any]:
    """Read the result that a worker wrote; empty if there is none."""
    stem = folder / CALL / file_stem(task)
    pickled, plain = stem.with_name(f"{stem.name}.pkl"), stem.with_name(f"{stem.name}.value")
    if _may_be_anything(folder):
        if not pickled.exists():
            return {}
        check_own(folder, pickled)
        return dict(pickle.loads(pickled.read_bytes()))
    try:
        with open_regular(plain) as file:
            content = read_plain(file)
    except FileNotFoundError:
        if pickled.exists():
            raise _not_read(pickled, "a pickle") from None
        return {}
    except DamagedError as error:
        raise _not_read(plain, str(error)) from error
    return content if isinstance(content, dict) else {}


def _may_be_anything(folder: Path) -> bool:
    return (folder / CALL / ANY_VALUES).exists()


def _not_read(path: Path, found: str) -> TfmusterError:
    return TfmusterError(
        "The value of a worker on another machine must be data, which runs nothing when it is read.",
        found=f"{found} in {path}",
        fix="Return numbers, text or arrays; or launch with trust_hosts if you trust all hosts of the job.",
        reason="not-plain",
        path=str(path),
    )


def _first_model(value: Any) -> PackedModel | None:
    if isinstance(value, PackedModel):
        return value
    if type(value) not in (dict, list, tuple):
        return None
    parts = value.values() if type(value) is dict else value
    return next(filter(None, map(_first_model, parts)), None)


def _unpacked(value: Any) -> Any:
    if isinstance(value, PackedModel):
        from ...models.saving import model_from_bytes

        return model_from_bytes(value.data)
    if type(value) is dict:
        return {key: _unpacked(part) for key, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(_unpacked, value))
    return value

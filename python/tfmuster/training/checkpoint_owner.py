"""Say whose a checkpoint is, and with which settings it was trained; refuse another's."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from ..cluster.findings import printable
from ..environment import RUN_DIR_VARIABLE
from ..errors import CheckpointError
from ..options.hints import Hint
from ..tracking.run import Run
from ..words import Words

#: Parts of an optimizer's configuration that say nothing of the training. Keras numbers the names.
_NAMES: Final = ("name", "module", "registered_name")


def owner_of(model: Any) -> dict[str, Any]:
    """Return whose checkpoint one of this model is: job, optimizer, and weights by name and shape.

    A job has the directory of its run and its name: that of the program, unless the user gives one. Both are
    None in a process that no launcher has started, and the name where the run is on another machine.
    """
    run = Run(os.environ[RUN_DIR_VARIABLE]) if os.environ.get(RUN_DIR_VARIABLE) else None
    return {
        "job": run and run.name,
        "name": run and run.info().get("name"),
        "optimizer": type(model.optimizer).__name__,
        # Keras numbers the names of layers within a process, so the same model may have other numbers.
        "weights": [
            [re.sub(r"_\d+", "", getattr(v, "path", v.name)), list(map(int, v.shape))] for v in model.weights
        ],
    }


def says_owner(value: Mapping[str, Any]) -> bool:
    """Return whether a value is like those of `owner_of`.

    Whoever can write to the folder can write anything there.
    """
    return (
        {"job", "name", "optimizer", "weights"} <= value.keys()
        and all(isinstance(value[name], str | None) for name in ("job", "name"))
        and isinstance(value["optimizer"], str)
        and _are_weights(value["weights"])
    )


def _are_weights(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, list)
        and len(each) == 2
        and isinstance(each[0], str)
        and isinstance(each[1], list)
        and all(type(size) is int for size in each[1])
        for each in value
    )


def says_settings(value: Mapping[str, Any]) -> bool:
    """Return whether each value of a mapping is a number or a text, like those of `settings_of`."""
    return all(isinstance(each, int | float | str | None) for each in value.values())


def check_owner(theirs: dict[str, Any], ours: dict[str, Any], folder: Path) -> None:
    """Raise a CheckpointError if a checkpoint in ``folder`` is another job's, or of another model.

    The name of the job stays when its user starts the same program again, though the run directory and the
    seed are new. The same run, started with another name, goes on.

    Parameters
    ----------
    theirs, ours : dict
        What `owner_of` has returned when the checkpoint was written, and what it returns now.
    folder : Path
        The folder of the checkpoint.
    """
    named = theirs["name"], ours["name"]
    if None not in named and named[0] != named[1] and theirs["job"] != ours["job"]:
        raise CheckpointError(
            "The checkpoint belongs to another job.",
            found=f"the job {printable(named[0])} in {folder} (run {printable(theirs['job'])}), here the "
            f"job {named[1]}",
            fix=Words(
                "to resume its training, give this job its name: {}; otherwise choose another folder, or "
                "remove {}",
                Hint("name", printable(named[0])),
                folder,
            ),
            path=str(folder),
            reason="other-name",
        )
    if found := _difference(theirs, ours):
        job = f" (written by the job {printable(theirs['job'])})" if theirs["job"] else ""
        raise of_other_model(found + job, folder)


def of_other_model(found: str, folder: Path) -> CheckpointError:
    """Return the error for a checkpoint of another model in ``folder``."""
    return CheckpointError(
        "The checkpoint belongs to another model or optimizer.",
        found=found,
        fix=f"remove {folder}, or choose another folder",
        path=str(folder),
        reason="other-model",
    )


def _difference(theirs: dict[str, Any], ours: dict[str, Any]) -> str:
    """Return in which way a checkpoint is of another model, or an empty string."""
    if (optimizer := theirs["optimizer"]) != ours["optimizer"]:
        return f"the optimizer {printable(optimizer)}, here {ours['optimizer']}"
    for pair in itertools.zip_longest(theirs["weights"], ours["weights"]):
        if pair[0] != pair[1]:
            text = [
                f"{printable(each[0])} of shape {tuple(each[1])}" if each else "no weight" for each in pair
            ]
            return f"{text[0]}, here {text[1]}"
    return ""


def settings_of(optimizer: Any) -> dict[str, Any]:
    """Return the numbers and words of an optimizer's configuration, as JSON values.

    They may change between two starts of a training, on purpose or with the number of workers.
    """
    try:
        return dict(_leaves(optimizer.get_config()))
    except Exception:
        # A class of the user's own need not have a configuration.
        return {}


def _leaves(config: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for name, value in config.items():
        if name in _NAMES:
            continue
        inside = path if name == "config" else (*path, str(name))
        if isinstance(value, Mapping):
            yield from _leaves(value, inside)
        elif isinstance(value, int | float | str | None):
            yield ".".join(inside), value


def learning_rate(optimizer: Any) -> float | None:
    """Return an optimizer's learning rate if it is a number; None if a schedule computes it."""
    rate = getattr(optimizer, "learning_rate", None)
    return float(rate.numpy()) if rate is not None and hasattr(rate, "assign") else None


def changed_settings(was: dict[str, Any], now: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return each setting that has changed, with its value before and now."""
    return {
        name: (_short(was[name]), _short(now[name])) for name in now if name in was and was[name] != now[name]
    }


def _short(value: Any) -> Any:
    # Learning rates are float32.
    return f"{value:.6g}" if isinstance(value, float) else value

"""What a checkpoint has of a training: whose it is, its data and settings, and the state of its model."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from ..cluster.findings import printable
from ..environment import RUN_DIR_VARIABLE
from ..errors import CheckpointError
from ..keras_compat.agreement.calls import Call
from ..keras_compat.agreement.documents import SAMPLE
from ..keras_compat.agreement.samples import close, sample_of
from ..keras_compat.steps.resume import training_epochs
from ..options.hints import Hint
from ..system.generators import job_seed
from ..tracking.run import Run
from ..words import Words
from . import checkpoint_files
from .checkpoint_files import Field


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


_SEED: Final = "seed"
_TENSORFLOW: Final = "TensorFlow"

#: Entries of a call's document that must stay the same, and the texts for them.
_SAME: Final = {
    "batch size": "batch size",
    "number of rows": "rows",
    "steps": "steps in an epoch",
    "elements": "elements",
    SAMPLE: "numbers in the first rows",
}


def data_of(model: Any) -> dict[str, Any]:
    """Return what a ``fit`` that begins trains on, as JSON values, and with which TensorFlow."""
    import tensorflow as tf

    about: dict[str, Any] = {_TENSORFLOW: tf.__version__, _SEED: job_seed()}
    call = Call.of(model)
    if call is not None and call.document:
        return about | {name: call.document[name] for name in _SAME if name in call.document}
    epochs = training_epochs(model)
    adapter = getattr(epochs, "data_adapter", None)
    if adapter is None:
        # The coordinator of parameter servers reads no data itself.
        return about
    for name, attribute in (("batch size", "batch_size"), ("number of rows", "_num_samples")):
        value = getattr(adapter, attribute, None)
        about[name] = None if value is None else int(value)
    return about | {SAMPLE: sample_of(epochs)}


def says_data(value: dict[str, Any]) -> bool:
    """Return whether a dict is like those of `data_of`."""
    return {_TENSORFLOW, _SEED} <= value.keys() and all(
        isinstance(each, int | float | str | None)
        or (isinstance(each, list) and all(isinstance(text, str) for text in each))
        for each in value.values()
    )


def check_data(theirs: dict[str, Any], ours: dict[str, Any], folder: Path) -> None:
    """Raise a CheckpointError if a checkpoint in ``folder`` is of another training, or another TensorFlow.

    Parameters
    ----------
    theirs, ours : dict
        What `data_of` has returned when the checkpoint was written, and what it returns now.
    folder : Path
        The folder of the checkpoint.
    """
    if (version := theirs[_TENSORFLOW]) != ours[_TENSORFLOW]:
        raise CheckpointError(
            "A training resumes exactly only with the TensorFlow that it began with.",
            found=f"TensorFlow {printable(version)} in {folder}, here {ours[_TENSORFLOW]}",
            fix=f"install tensorflow=={printable(version)}; or remove {folder}, and start again",
            path=str(folder),
            reason="other-tensorflow",
        )
    differing = [
        f"{text} {printable(theirs[name])}, here {ours[name]}"
        for name, text in _SAME.items()
        if name in theirs and name in ours and not _equal(name, theirs[name], ours[name])
    ]
    if not differing:
        return
    fix = f"give it the same data and batch size; or remove {folder}, or choose another folder"
    seed = theirs[_SEED]
    if seed is not None and seed != ours[_SEED]:
        differing.append(f"seed {printable(seed)}, here {ours[_SEED]}")
        fix = Words("start it with the same seed: {}; or {}", Hint("seed", seed), fix)
    raise CheckpointError(
        "A training resumes exactly only with the data that it began with.",
        found="; ".join(differing),
        fix=fix,
        path=str(folder),
        reason="other-data",
    )


def changed_seed(theirs: dict[str, Any], ours: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the seed of the job before and now, if it is another one. See `check_data` for the arguments.

    That is no reason to refuse: a job that is started again without a seed draws one.
    """
    was, now = theirs[_SEED], ours[_SEED]
    return {} if None in (was, now) or was == now else {_SEED: (was, now)}


def _equal(name: str, first: Any, second: Any) -> bool:
    if name == SAMPLE:
        return close(str(first), str(second))
    # Not every kind of data says everything.
    return first == second or first is None or second is None


#: Fields of a checkpoint from which a training can resume.
FIELDS = {
    **{name: Field(int) for name in ("epoch", "step", "state")},
    "history": Field(dict, inside=list),
    "of": Field(dict, also=says_owner),
    "data": Field(dict, also=says_data),
    "settings": Field(dict, also=says_settings),
}

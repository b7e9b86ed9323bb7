"""What a checkpoint has of a training: whose it is, its data and settings, and the state of its model."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypedDict

import numpy as np

from ..cluster.findings import printable
from ..errors import CheckpointError
from ..keras_compat.agreement.documents import Call
from ..keras_compat.agreement.samples import SAMPLE, close, sample_of
from ..keras_compat.agreement.state import checksum, state_of
from ..keras_compat.steps.epochs import training_epochs
from ..options.hints import Hint
from ..system.generators import job_seed
from ..tracking.record.layout import own_run_dir
from ..tracking.record.recording import Check, is_a, list_of, or_none, read_info
from ..words import Words
from . import checkpoint_files

if TYPE_CHECKING:
    import keras
    import numpy.typing as npt

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
#: Parts of an optimizer's configuration that say nothing of the training. Keras numbers the names.
_NAMES: Final = ("name", "module", "registered_name")

Setting = int | float | str | None


class Owner(TypedDict):
    """Whose a checkpoint is; see `owner_of`."""

    job: str | None
    name: str | None
    optimizer: str
    weights: list[list[Any]]


# ---- variables ------------------------------------------------------------------------------------------


def load_weights(model: keras.Model, content: bytes, folder: Path) -> None:
    """Load the weights in a checkpoint's content into a compiled model; `folder` is named in an error.

    Raises CheckpointError for another model (reason ``other-model``) or job (``other-name``).
    """
    model.optimizer.build(model.trainable_variables)
    load(model, content, folder)


def load(
    model: keras.Model, content: bytes, folder: Path
) -> tuple[dict[str, Any], list[npt.NDArray[np.generic]]]:
    """Load a model's state; return the position and the values of the metrics."""
    position, values = checkpoint_files.unpack(content)
    state = state_of(model)
    check_owner(position["of"], owner_of(model), folder)
    if [value.shape for value in values[: position["state"]]] != [tuple(v.shape) for v in state]:
        raise _of_other_model(f"{position['state']} variables, here {len(state)}, or other shapes", folder)
    for variable, value in zip(state, values[: len(state)], strict=True):
        variable.assign(value)
    if checksum(np.asarray(variable.numpy()) for variable in state) != position["checksum"]:
        raise _of_other_model("numbers of other types", folder)
    return position, values[len(state) :]


# ---- owner ----------------------------------------------------------------------------------------------


def owner_of(model: keras.Model) -> Owner:
    """Return whose checkpoint one of this model is: job, optimizer, and weights by name and shape.

    The name of a job is that of the program, unless the user gives one; None if the run is on another
    machine. Without a launcher, both are None.
    """
    run_dir = own_run_dir()
    return {
        "job": run_dir.name if run_dir else None,
        "name": read_info(run_dir).get("name") if run_dir else None,
        "optimizer": type(model.optimizer).__name__,
        # Keras numbers the names of layers within a process, so the same model may have other numbers.
        "weights": [
            [re.sub(r"_\d+", "", getattr(v, "path", v.name)), list(map(int, v.shape))] for v in model.weights
        ],
    }


def check_owner(theirs: Owner, ours: Owner, folder: Path) -> None:
    """Raise a CheckpointError if a checkpoint in ``folder`` is another job's, or of another model.

    A job that starts again keeps its name, with a new run directory and seed. The same run may change its
    name.
    """
    name = theirs["name"]
    if None not in (name, ours["name"]) and name != ours["name"] and theirs["job"] != ours["job"]:
        raise CheckpointError(
            "The checkpoint belongs to another job.",
            found=f"the job {printable(name)} in {folder} (run {printable(theirs['job'])}), here the "
            f"job {ours['name']}",
            fix=Words(
                "to resume its training, give this job its name: {}; otherwise choose another folder, or "
                "remove {}",
                Hint("name", printable(name)),
                folder,
            ),
            path=str(folder),
            reason="other-name",
        )
    if difference := _difference(theirs, ours):
        job = f" (written by the job {printable(theirs['job'])})" if theirs["job"] else ""
        raise _of_other_model(difference + job, folder)


def _of_other_model(found: str, folder: Path) -> CheckpointError:
    return CheckpointError(
        "The checkpoint belongs to another model or optimizer.",
        found=found,
        fix=f"remove {folder}, or choose another folder",
        path=str(folder),
        reason="other-model",
    )


def _difference(theirs: Owner, ours: Owner) -> str:
    """Return in which way a checkpoint is of another model, or an empty string."""
    if (optimizer := theirs["optimizer"]) != ours["optimizer"]:
        return f"the optimizer {printable(optimizer)}, here {ours['optimizer']}"
    for pair in itertools.zip_longest(theirs["weights"], ours["weights"]):
        if pair[0] != pair[1]:
            their_weight, our_weight = (
                f"{printable(weight[0])} of shape {tuple(weight[1])}" if weight else "no weight"
                for weight in pair
            )
            return f"{their_weight}, here {our_weight}"
    return ""


# ---- data -----------------------------------------------------------------------------------------------


def data_of(model: keras.Model) -> dict[str, Any]:
    """Return what a ``fit`` that begins trains on, as JSON values, and with which TensorFlow."""
    import tensorflow as tf

    about: dict[str, Any] = {_TENSORFLOW: tf.__version__, _SEED: job_seed()}
    call = Call.of(model)
    if call is not None and call.document:
        return about | {name: call.document[name] for name in _SAME if name in call.document}
    epochs = training_epochs(model)
    adapter = getattr(epochs, "data_adapter", None)
    if epochs is None or adapter is None:
        # The coordinator of parameter servers reads no data itself.
        return about
    for name, attribute in (("batch size", "batch_size"), ("number of rows", "_num_samples")):
        value = getattr(adapter, attribute, None)
        about[name] = None if value is None else int(value)
    return about | {SAMPLE: sample_of(epochs.data_adapter)}


def check_data(theirs: Mapping[str, object], ours: Mapping[str, object], folder: Path) -> None:
    """Raise a CheckpointError if a checkpoint is of another training or TensorFlow, by its `data_of`."""
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


def _equal(name: str, first: object, second: object) -> bool:
    if name == SAMPLE:
        return close(str(first), str(second))
    # Not every kind of data says everything.
    return first == second or first is None or second is None


# ---- settings -------------------------------------------------------------------------------------------


def settings_of(optimizer: keras.optimizers.Optimizer) -> dict[str, Setting]:
    """Return an optimizer's numbers and words, as JSON values, which may change between two starts."""
    try:
        return dict(_leaves(optimizer.get_config()))
    except Exception:
        # A class of the user's own need not have a configuration.
        return {}


def _leaves(config: Mapping[str, object], path: tuple[str, ...] = ()) -> Iterator[tuple[str, Setting]]:
    for name, value in config.items():
        if name in _NAMES:
            continue
        inside = path if name == "config" else (*path, str(name))
        if isinstance(value, Mapping):
            yield from _leaves(value, inside)
        elif isinstance(value, Setting):
            yield ".".join(inside), value


def learning_rate(optimizer: keras.optimizers.Optimizer) -> float | None:
    """Return an optimizer's learning rate if it is a number; None if a schedule computes it."""
    rate = getattr(optimizer, "learning_rate", None)
    return float(rate.numpy()) if rate is not None and hasattr(rate, "assign") else None


def changed_settings(
    was: Mapping[str, Setting], now: Mapping[str, Setting]
) -> dict[str, tuple[Setting, Setting]]:
    """Return each setting that has changed, with its value before and now."""

    def short(value: Setting) -> Setting:
        # Learning rates are float32.
        return f"{value:.6g}" if isinstance(value, float) else value

    return {
        name: (short(was[name]), short(now[name])) for name in now if name in was and was[name] != now[name]
    }


def changed_seed(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> dict[str, tuple[Setting, Setting]]:
    """Return the job's seed before and now, by `data_of`, if it differs: a restart without one draws one."""
    was, now = theirs[_SEED], ours[_SEED]
    return {} if None in (was, now) or was == now else {_SEED: (was, now)}


# ---- what a checkpoint must have: whoever can write to the folder can write anything there ---------------


def _is_weight(value: object) -> bool:
    """Return whether a value is a list of a name and a shape."""
    return isinstance(value, list) and list(map(type, value)) == [str, list] and list_of(is_a(int))(value[1])


_OWNER: Final[Mapping[str, Check]] = {
    **dict.fromkeys(("job", "name"), or_none(is_a(str))),
    "optimizer": is_a(str),
    "weights": list_of(_is_weight),
}


def _is_owner(value: object) -> bool:
    return isinstance(value, dict) and all(
        name in value and check(value[name]) for name, check in _OWNER.items()
    )


def _is_setting(value: object) -> bool:
    return isinstance(value, Setting)


def _dict_of(check: Check, *names: str) -> Check:
    """Return the check of dicts that have these names, and whose values all suit."""
    return lambda value: (
        isinstance(value, dict) and value.keys() >= set(names) and all(map(check, value.values()))
    )


#: Fields of a checkpoint from which a training can resume, and what each must be.
FIELDS: Final[Mapping[str, Check]] = {
    # A boolean is no number of steps.
    **dict.fromkeys(("epoch", "step", "state"), lambda value: is_a(int)(value) and value >= 0),
    "history": _dict_of(is_a(list)),
    "of": _is_owner,
    "checksum": is_a(str),
    "data": _dict_of(lambda entry: _is_setting(entry) or list_of(is_a(str))(entry), _TENSORFLOW, _SEED),
    "settings": _dict_of(_is_setting),
}

"""Say what a training was fed with, so that it does not resume with something else."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from ..cluster.findings import printable
from ..errors import CheckpointError
from ..keras_compat.agreement.calls import Call
from ..keras_compat.agreement.documents import SAMPLE
from ..keras_compat.agreement.samples import close, sample_of
from ..keras_compat.steps.epochs import training_epochs
from ..options.hints import Hint
from ..system.generators import job_seed
from ..words import Words

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

"""Write checkpoints of a model with a Keras callback, and resume from them within an epoch."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from ..cluster.findings import printable
from ..errors import CheckpointError, TfmusterWarning
from ..keras_compat.losses.metric_state import read_metrics, restore_metrics
from ..keras_compat.process import is_chief, multi_worker, require_tensorflow_backend
from ..keras_compat.saving.files import send_bytes
from ..keras_compat.steps.building import build
from ..keras_compat.steps.resume import resume_at, training_epochs
from ..rendezvous.agreement import agree
from ..rendezvous.farewell import FAREWELL
from ..runs.states import State
from ..system.say import say
from ..system.tensorflow_import import import_tensorflow
from ..words import Value, Words
from . import checkpoint_files
from .checkpoint_data import changed_seed, check_data, data_of, says_data
from .checkpoint_files import Field, folder_of_job
from .checkpoint_owner import (
    changed_settings,
    check_owner,
    learning_rate,
    of_other_model,
    owner_of,
    says_owner,
    says_settings,
    settings_of,
)

#: Fields of a checkpoint from which a training can resume.
FIELDS = {
    **{name: Field(int) for name in ("epoch", "step", "state")},
    "history": Field(dict, inside=list),
    "of": Field(dict, also=says_owner),
    "data": Field(dict, also=says_data),
    "settings": Field(dict, also=says_settings),
}
#: The default folders of the callbacks that this program has made.
_without_folder: list[Path] = []
#: The folders of each `fit` of this program that has ended.
_ended: set[Path] = set()


def checkpoint_callback(
    folder: str | os.PathLike[str] | None = None, *, every: int | str | None = "epoch", keep: int = 2
) -> Any:
    """Make a Keras callback that writes checkpoints, and resumes from the newest one when ``fit`` starts.

    Pass it to ``fit`` on every worker. The chief writes and reads the files, and sends the content to the
    other workers. If the data has a seeded order, an interrupted and restarted run ends with the same weights
    as an uninterrupted one, bit for bit. The state of other callbacks, such as EarlyStopping, is not saved.

    While ``fit`` runs, SIGTERM or SIGUSR1 to any worker shuts all workers down, as ``tfmuster runs stop
    --save`` does. The chief writes one more checkpoint after the same step on all of them. Then they exit
    with code 128 + the signal. A second signal ends a worker at once.

    Parameters
    ----------
    folder : path, optional
        Folder of the checkpoints. Default: ``checkpoints`` in the run directory of the job, or in
        ``TFMUSTER_CHECKPOINT_DIR`` if that is set. Each ``fit`` needs a separate folder, so further
        callbacks of the same program use ``checkpoints-2`` and so on.
    every : int, "epoch" or None
        Write after this many steps, after each epoch, or only on a shutdown signal.
    keep : int
        Number of checkpoints to keep; at least 2, so that an earlier one exists if the newest is damaged.
        Those that can't be read do not count, and stay.

    Returns
    -------
    keras.callbacks.Callback

    Raises
    ------
    CheckpointError
        There is no folder and no job. Later, ``fit`` raises it if the disk is full, or if the checkpoint
        belongs to something else. The reason says to what: ``other-model``, ``other-name`` (of the job),
        ``other-data`` (or another batch size), or ``other-tensorflow`` (another version).
    StrategyError
        Keras has another backend than TensorFlow (reason ``backend``).
    """
    if every not in ("epoch", None) and (isinstance(every, bool) or not isinstance(every, int) or every < 1):
        raise CheckpointError(
            Words('every must be "epoch", {}, or a whole number of steps of at least 1.', Value(None)),
            found=str(Value(every)),
            path=None if folder is None else str(folder),
            reason="every",
        )
    require_tensorflow_backend(
        "checkpoint_callback()",
        "use keras.callbacks.BackupAndRestore, whose files the chief writes and reads",
    )
    where = folder_of_job(folder)
    if folder is None:
        _without_folder.append(where)
        number = len(_without_folder)
        where = where if number == 1 else where.with_name(f"{where.name}-{number}")
    import_tensorflow()
    return _make_callback(where, every, max(2, keep))


def has_checkpoints(callbacks: Iterable[Any]) -> bool:
    """Return whether one of these callbacks was made by `checkpoint_callback`."""
    return any(hasattr(callback, "saves_at") for callback in callbacks)


def _make_callback(folder: Path, every: int | str | None, keep: int) -> Any:
    import keras

    from ..keras_compat import install

    install()

    class Checkpoint(keras.callbacks.Callback):  # type: ignore[misc]
        needs_batches = isinstance(every, int)
        #: When it writes; other modules recognize it by this.
        saves_at = every

        def before_writing(self) -> None:
            """Update the model; `ps_fit` replaces this, because parameter servers have the weights."""

        def on_train_begin(self, logs: Any = None) -> None:
            FAREWELL.begins()
            self.epoch = self.step = self.last = 0
            self.leaves = False
            # Later, the model's current data are those of its validation.
            self.data = data_of(self.model)
            # A checkpoint, and callbacks, set another learning rate.
            self.settings = settings_of(self.model.optimizer)
            self.rate = learning_rate(self.model.optimizer)
            self.metrics: list[Any] | None = None
            self.past: dict[str, list[float]] = {}
            strategy = self.model.distribute_strategy
            content = None
            if is_chief(strategy):
                checkpoint_files.claim(folder)
                newest = checkpoint_files.newest(folder, FIELDS)
                content = newest and newest.content
            if multi_worker(strategy):
                content = send_bytes(content, strategy)
            if content is not None:
                build(self.model, training_epochs(self.model))
                self._restore(content)
            if folder in _ended and self.epoch >= (self.params or {}).get("epochs", 0):
                warnings.warn(
                    f"This fit has nothing to train: {folder} has the end of an earlier fit of this program. "
                    "Give each fit a folder of its own.",
                    TfmusterWarning,
                    stacklevel=2,
                )
            if FAREWELL.point():
                # Nothing has been trained since the newest checkpoint.
                self._leave()

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            if self.leaves:
                self._leave()
            self.epoch = epoch
            self._recall_history()
            if self.metrics is not None:
                # Keras has just reset the metrics, but the resumed epoch is partly done.
                restore_metrics(_metrics(self.model), self.metrics, self.model.distribute_strategy)
                self.metrics = None

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            # One call per execution, which may have several steps.
            self.last += batch + 1 - self.step
            self.step = batch + 1
            steps = self.params.get("steps")
            # At the end of an epoch, `on_epoch_end` writes the checkpoint with the epoch's logs.
            if steps is not None and self.step >= steps:
                return
            leaves = FAREWELL.point()
            if leaves or self._due():
                self._write()
            if leaves:
                self._leave()

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.epoch, self.step = epoch + 1, 0
            # The other callbacks have the end of the epoch, too, before this process leaves.
            self.leaves = FAREWELL.point()
            if self.leaves or every == "epoch" or self._due():
                self._write(logs)

        def on_train_end(self, logs: Any = None) -> None:
            if self.leaves:
                self._leave()
            # A fit that had ended before a restart has trained no epoch now.
            self._recall_history()
            _ended.add(folder)
            FAREWELL.ends()

        def _recall_history(self) -> None:
            self.model.history.history.update({name: list(values) for name, values in self.past.items()})
            self.past = {}

        def _due(self) -> bool:
            return isinstance(every, int) and self.last >= every

        def _write(self, logs: Any = None) -> None:
            self.last = 0
            self.before_writing()
            history = {name: list(values) for name, values in self.model.history.history.items()}
            for name, value in (logs or {}).items():
                # Keras's own record of this epoch may come before or after this callback.
                values = history.setdefault(name, [])
                if len(values) < self.epoch:
                    values.append(float(value))
            strategy = self.model.distribute_strategy
            state, metrics = _read(_state(self.model)), read_metrics(_metrics(self.model), strategy)
            if is_chief(strategy):
                place = {"epoch": self.epoch, "step": self.step, "state": len(state), "history": history}
                # Optimizers count the steps of all epochs, and of earlier runs.
                number = int(self.model.optimizer.iterations.numpy())
                place["of"] = owner_of(self.model)
                place["data"] = self.data
                place["settings"] = self.settings
                checkpoint_files.write(folder, number, place, [*state, *metrics])
                checkpoint_files.remove_old(folder, keep, number, FIELDS)

        def _leave(self) -> NoReturn:
            """End this process because of a shutdown signal, after the chief has written."""
            strategy = self.model.distribute_strategy
            if is_chief(strategy):
                done = int(self.model.optimizer.iterations.numpy())
                say(f"tfmuster: shutting down; wrote the checkpoint of step {done} to {folder}")
            if multi_worker(strategy):
                agree("the end of saving", {})
            total = {name: self.params.get(name) for name in ("epochs", "steps")}
            FAREWELL.leave(State("preempted", epoch=self.epoch, step=self.step, **total))

        def _restore(self, content: bytes) -> None:
            position, metrics = _load(self.model, content, folder)
            check_data(position["data"], self.data, folder)
            self.past = position["history"]
            if position["step"]:
                self.metrics = metrics
            self.epoch, self.step = position["epoch"], position["step"]
            resume_at(self.model, self.epoch, self.step)
            changed = changed_settings(position["settings"], self.settings)
            if self.rate is not None and any(name.endswith("learning_rate") for name in changed):
                # Only the program can have done that: a checkpoint says what it began with.
                self.model.optimizer.learning_rate = self.rate
            if is_chief(self.model.distribute_strategy):
                done = int(self.model.optimizer.iterations.numpy())
                say(f"tfmuster: resumes after step {done}: epoch {self.epoch + 1}, step {self.step}")
                changed |= changed_seed(position["data"], self.data)
                if changed:
                    texts = [
                        f"{name} {printable(now)}, which was {printable(was)}"
                        for name, (was, now) in changed.items()
                    ]
                    say(f"tfmuster: continues with {'; '.join(texts)}")

    return Checkpoint()


def load_weights(model: Any, content: bytes, folder: Path) -> None:
    """Load the weights in a checkpoint's content into a compiled model; `folder` is named in an error.

    Raises
    ------
    CheckpointError
        The checkpoint belongs to another model (reason ``other-model``) or job (``other-name``).
    """
    model.optimizer.build(model.trainable_variables)
    _load(model, content, folder)


def _load(model: Any, content: bytes, folder: Path) -> tuple[dict[str, Any], list[Any]]:
    """Load a model's state; return the position and the values of the metrics."""
    position, values = checkpoint_files.unpack(content)
    state = _state(model)
    check_owner(position["of"], owner_of(model), folder)
    if [value.shape for value in values[: position["state"]]] != [tuple(each.shape) for each in state]:
        raise of_other_model(f"{position['state']} variables, here {len(state)}, or other shapes", folder)
    _assign(state, values[: len(state)])
    return position, values[len(state) :]


def _state(model: Any) -> list[Any]:
    """Return the variables that the next step depends on: weights, random generators, optimizer state."""
    metrics = {id(variable) for variable in _metrics(model)}
    return [v for v in [*model.variables, *model.optimizer.variables] if id(v) not in metrics]


def _metrics(model: Any) -> list[Any]:
    return [variable for metric in model.metrics for variable in metric.variables]


def _read(variables: list[Any]) -> list[Any]:
    return [np.asarray(variable.numpy()) for variable in variables]


def _assign(variables: list[Any], values: list[Any]) -> None:
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)

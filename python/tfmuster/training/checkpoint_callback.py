"""The Keras callback that writes checkpoints, and resumes from them within an epoch. It imports Keras."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import keras
import numpy as np

from ..cluster.findings import printable
from ..errors import TfmusterWarning
from ..keras_compat.agreement.state import agree_on_state, checksum, metrics_of, state_of
from ..keras_compat.losses.metrics import read_metrics, restore_metrics
from ..keras_compat.process import is_chief, multi_worker
from ..keras_compat.saving import send_bytes
from ..keras_compat.steps.epochs import resume_at, training_epochs
from ..keras_compat.steps.tracing import build
from ..rendezvous.preemption import PREEMPTION
from ..rendezvous.task.agreement import agree
from ..system.say import say
from ..tracking.live.states import State
from . import checkpoint_contents as contents
from . import checkpoint_files

#: The folders of each `fit` of this program that has ended.
_ended: set[Path] = set()


class Checkpoint(keras.callbacks.Callback):  # type: ignore[misc]
    """Writes checkpoints to a folder; see :func:`tfmuster.checkpoint_callback`."""

    def __init__(self, folder: Path, every: int | str | None, keep: int) -> None:
        super().__init__()
        self.folder, self.keep = folder, keep
        #: When it writes; other modules recognize it by this.
        self.saves_at = every
        self.needs_batches = isinstance(every, int)

    def before_writing(self) -> None:
        """Update the model; `ps_fit` replaces this, because parameter servers have the weights."""

    def on_train_begin(self, logs: Mapping[str, float] | None = None) -> None:
        """Resume from the newest checkpoint of the folder."""
        PREEMPTION.begins()
        self.epoch = self.step = self.last = 0
        self.leaves = False
        # Later, the model's current data are those of its validation.
        self.data = contents.data_of(self.model)
        # A checkpoint, and callbacks, set another learning rate.
        self.settings = contents.settings_of(self.model.optimizer)
        self.rate = contents.learning_rate(self.model.optimizer)
        self.metrics: list[Any] | None = None
        self.past: dict[str, list[float]] = {}
        strategy = self.model.distribute_strategy
        content = None
        if is_chief(strategy):
            checkpoint_files.claim(self.folder)
            newest = checkpoint_files.newest(self.folder, contents.FIELDS)
            content = newest and newest.content
        if multi_worker(strategy):
            content = send_bytes(content, strategy)
        if content is not None:
            build(self.model, training_epochs(self.model))
            self._restore(content)
        if self.folder in _ended and self.epoch >= (self.params or {}).get("epochs", 0):
            warnings.warn(
                f"This fit has nothing to train: {self.folder} has the end of an earlier fit of this "
                "program. Give each fit a folder of its own.",
                TfmusterWarning,
                stacklevel=2,
            )
        if PREEMPTION.point():
            # Nothing has been trained since the newest checkpoint.
            self._leave()

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """Continue with what a resumed epoch had."""
        if self.leaves:
            self._leave()
        self.epoch = epoch
        self._recall_history()
        if self.metrics is not None:
            # Keras has just reset the metrics, but the resumed epoch is partly done.
            restore_metrics(metrics_of(self.model), self.metrics, self.model.distribute_strategy)
            self.metrics = None

    def on_train_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
        """Write, or leave, at the end of an execution of steps."""
        # One call per execution, which may have several steps.
        self.last += batch + 1 - self.step
        self.step = batch + 1
        steps = self.params.get("steps")
        # At the end of an epoch, `on_epoch_end` writes the checkpoint with the epoch's logs.
        if steps is not None and self.step >= steps:
            return
        leaves = PREEMPTION.point()
        if leaves or self._due():
            self._write()
        if leaves:
            self._leave()

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """Write at the end of an epoch."""
        self.epoch, self.step = epoch + 1, 0
        # The other callbacks have the end of the epoch, too, before this process leaves.
        self.leaves = PREEMPTION.point()
        if self.leaves or self.saves_at == "epoch" or self._due():
            self._write(logs)

    def on_train_end(self, logs: Mapping[str, float] | None = None) -> None:
        """Leave, if a shutdown signal has come."""
        if self.leaves:
            self._leave()
        # A fit that had ended before a restart has trained no epoch now.
        self._recall_history()
        _ended.add(self.folder)
        PREEMPTION.ends()

    def _recall_history(self) -> None:
        self.model.history.history.update({name: list(values) for name, values in self.past.items()})
        self.past = {}

    def _due(self) -> bool:
        return isinstance(self.saves_at, int) and self.last >= self.saves_at

    def _write(self, logs: Mapping[str, float] | None = None) -> None:
        self.last = 0
        self.before_writing()
        # A training goes back to a checkpoint at which all workers agreed.
        agree_on_state(self.model, epoch=self.epoch if logs is not None else self.epoch + 1)
        history = {name: list(values) for name, values in self.model.history.history.items()}
        for name, value in (logs or {}).items():
            # Keras's own record of this epoch may come before or after this callback.
            values = history.setdefault(name, [])
            if len(values) < self.epoch:
                values.append(float(value))
        strategy = self.model.distribute_strategy
        state = [np.asarray(variable.numpy()) for variable in state_of(self.model)]
        metrics = read_metrics(metrics_of(self.model), strategy)
        if is_chief(strategy):
            position = {
                **{"epoch": self.epoch, "step": self.step, "state": len(state), "history": history},
                **{"of": contents.owner_of(self.model), "data": self.data, "settings": self.settings},
                "checksum": checksum(state),
            }
            # Optimizers count the steps of all epochs, and of earlier runs.
            number = int(self.model.optimizer.iterations.numpy())
            checkpoint_files.write(self.folder, number, position, [*state, *metrics])
            checkpoint_files.remove_old(self.folder, self.keep, number, contents.FIELDS)

    def _leave(self) -> NoReturn:
        """End this process because of a shutdown signal, after the chief has written."""
        strategy = self.model.distribute_strategy
        if is_chief(strategy):
            done = int(self.model.optimizer.iterations.numpy())
            say(f"tfmuster: shutting down; wrote the checkpoint of step {done} to {self.folder}")
        if multi_worker(strategy):
            agree("the end of saving", {})
        total = {name: self.params.get(name) for name in ("epochs", "steps")}
        PREEMPTION.exit(State("preempted", epoch=self.epoch, step=self.step, **total))

    def _restore(self, content: bytes) -> None:
        position, metrics = contents.load(self.model, content, self.folder)
        contents.check_data(position["data"], self.data, self.folder)
        self.past = position["history"]
        if position["step"]:
            self.metrics = metrics
        self.epoch, self.step = position["epoch"], position["step"]
        resume_at(self.model, self.epoch, self.step)
        changed = contents.changed_settings(position["settings"], self.settings)
        if self.rate is not None and any(name.endswith("learning_rate") for name in changed):
            # Only the program can have done that: a checkpoint says what it began with.
            self.model.optimizer.learning_rate = self.rate
        if is_chief(self.model.distribute_strategy):
            done = int(self.model.optimizer.iterations.numpy())
            say(f"tfmuster: resumes after step {done}: epoch {self.epoch + 1}, step {self.step}")
            changed |= contents.changed_seed(position["data"], self.data)
            if changed:
                texts = [
                    f"{name} {printable(now)}, which was {printable(was)}"
                    for name, (was, now) in changed.items()
                ]
                say(f"tfmuster: continues with {'; '.join(texts)}")

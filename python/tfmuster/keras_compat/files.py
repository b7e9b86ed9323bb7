"""Callbacks and saving run on every worker; only what the chief writes is kept."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
from typing import Any

from .workers import is_chief, multi_worker


@functools.cache
def _scratch() -> str:
    """A folder for what the workers other than the chief write and nobody reads."""
    folder = tempfile.mkdtemp(prefix="tfmuster-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def patch_files(model_class: Any, callbacks: Any) -> None:
    """Let all workers take part in saving, as reading distributed values needs them; the chief writes."""

    def redirect_save(name: str) -> None:
        stock = getattr(model_class, name)

        @functools.wraps(stock)
        def save(self: Any, filepath: Any, *args: Any, **kwargs: Any) -> Any:
            if not is_chief(self._distribute_strategy):
                filepath = os.path.join(_scratch(), os.path.basename(os.fspath(filepath)))
                kwargs["overwrite"] = True
            return stock(self, filepath, *args, **kwargs)

        setattr(model_class, name, save)

    def redirect_callback(callback: Any, *paths: str) -> None:
        stock = callback.set_model

        @functools.wraps(stock)
        def set_model(self: Any, model: Any) -> None:
            if not is_chief(model._distribute_strategy):
                for path in paths:
                    setattr(self, path, os.path.join(_scratch(), os.path.basename(getattr(self, path))))
            stock(self, model)

        callback.set_model = set_model

    redirect_save("save")
    redirect_save("save_weights")
    redirect_callback(callbacks.TensorBoard, "log_dir")
    redirect_callback(callbacks.CSVLogger, "filename")
    redirect_callback(callbacks.BackupAndRestore, "backup_dir", "_weights_path", "_training_metadata_path")
    stock_restore = callbacks.BackupAndRestore.on_train_begin

    @functools.wraps(stock_restore)
    def restore(self: Any, logs: Any = None) -> None:
        strategy = self.model._distribute_strategy
        if is_chief(strategy):
            stock_restore(self, logs)
        if multi_worker(strategy):
            _send_from_chief(self.model, strategy)

    callbacks.BackupAndRestore.on_train_begin = restore


def _send_from_chief(model: Any, strategy: Any) -> None:
    """Give every worker the chief's epoch, weights and optimizer state, where the chief has restored some."""
    import tensorflow as tf

    chief = is_chief(strategy)

    def sent(value: Any) -> Any:
        return strategy.reduce("SUM", value if chief else tf.zeros_like(value), axis=None)

    epoch = int(sent(tf.constant((model._initial_epoch or 0) if chief else 0)))
    if not epoch:
        return
    model._initial_epoch = epoch
    for variable in [*model.weights, *model.optimizer.variables]:
        value = tf.convert_to_tensor(variable.value)
        # TensorFlow's collectives know neither booleans nor unsigned integers.
        wire = value if value.dtype.is_floating else tf.cast(value, tf.int64)
        variable.assign(tf.cast(sent(wire), value.dtype))

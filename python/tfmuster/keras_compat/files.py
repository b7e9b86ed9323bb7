"""Let callbacks and saving run on every worker, but keep only the files of the chief."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import inspect
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .jax_processes import jax_process_index, send_bytes_in_jax
from .own_copies import forget_copy, reading_copies, scratch, writing_copy
from .replacing import replace_everywhere
from .strategy_info import is_chief, made_strategy, multi_worker
from .sums import sum_of_workers

_everywhere = contextvars.ContextVar("everywhere", default=False)


@contextlib.contextmanager
def saved_everywhere() -> Iterator[None]:
    """Inside the block, let every worker write the model to the path it names, which must be its own."""
    before = _everywhere.set(True)
    try:
        yield
    finally:
        _everywhere.reset(before)


def _strategy_of(model: Any) -> Any:
    """Return the strategy of TensorFlow under which a model was made; None on JAX."""
    return getattr(model, "_distribute_strategy", None)


def patch_files(model_class: Any, callbacks: Any) -> None:
    """Run saving on all workers, because reading distributed values needs all; keep the chief's files."""

    def redirect_callback(callback: Any, *paths: str) -> None:
        stock = callback.set_model

        @functools.wraps(stock)
        def set_model(self: Any, model: Any) -> None:
            if not is_chief(_strategy_of(model)):
                for path in (path for path in paths if hasattr(self, path)):
                    setattr(self, path, os.path.join(scratch(), os.path.basename(getattr(self, path))))
            stock(self, model)

        callback.set_model = set_model

    redirect_writer(model_class, "save")
    redirect_writer(model_class, "save_weights")
    redirect_callback(callbacks.TensorBoard, "log_dir")
    redirect_callback(callbacks.CSVLogger, "filename")
    redirect_callback(callbacks.BackupAndRestore, *_BACKUP)
    stock_restore = callbacks.BackupAndRestore.on_train_begin

    @functools.wraps(stock_restore)
    def restore(self: Any, logs: Any = None) -> None:
        # Loading is collective, because some variables are broadcast: all workers must load the same file.
        strategy = _strategy_of(self.model)
        if jax_process_index() is not None or multi_worker(strategy):
            for path in _BACKUP[1:]:
                if hasattr(self, path):
                    _send_file(getattr(self, path), strategy)
        stock_restore(self, logs)

    callbacks.BackupAndRestore.on_train_begin = restore


def redirect_writer(owner: Any, name: str, strategy_of: Callable[[Any], Any] = _strategy_of) -> None:
    """Let a function that takes a model and a path write to the path on the chief alone.

    Other workers write copies of their own, which they read later. They don't ask whether to overwrite a file
    that the chief may have made a moment ago.
    """
    stock = getattr(owner, name)
    signature = inspect.signature(stock)
    first, second = list(signature.parameters)[:2]

    @functools.wraps(stock)
    def write(*args: Any, **kwargs: Any) -> Any:
        try:
            given = signature.bind(*args, **kwargs)
        except TypeError:
            return stock(*args, **kwargs)  # It reports what is wrong with the arguments.
        given.apply_defaults()
        path = given.arguments[second]
        if not isinstance(path, (str, os.PathLike)):
            return stock(*args, **kwargs)
        if _everywhere.get() or is_chief(strategy_of(given.arguments[first])):
            forget_copy(path)
            return stock(*args, **kwargs)
        with writing_copy(path) as given.arguments[second]:
            if "overwrite" in signature.parameters:
                given.arguments["overwrite"] = True
            return stock(*given.args, **given.kwargs)

    setattr(owner, name, write)


def patch_saved_models() -> None:
    """Keep only the chief's folder of ``tf.saved_model.save``; other workers load their own copies."""
    from tensorflow.python.saved_model import load, save

    stock = save.save
    redirect_writer(save, "save")
    replace_everywhere(stock, save.save)
    replace_everywhere(load.load, reading_copies(load.load))


def patch_writers(model_class: Any) -> None:
    """Keep only the chief's files of the functions that write models, and of ``export``.

    Other workers read their own copies.
    """
    from keras.src.export import saved_model
    from keras.src.legacy.saving import legacy_h5_format
    from keras.src.saving import file_editor, saving_api, saving_lib
    from keras.src.utils import model_visualization

    # keras.saving.save_model, which R's keras3 calls, does not call Model.save.
    for function in ("save_model", "save_weights_only"):
        redirect_writer(saving_lib, function)
    redirect_writer(legacy_h5_format, "save_model_to_hdf5")
    redirect_writer(model_class, "export")
    # In newer releases of Keras, ExportArchive makes an object of another class.
    archive = type(saved_model.ExportArchive())
    stock_track = archive.track

    @functools.wraps(stock_track)
    def track(self: Any, resource: Any) -> Any:
        if isinstance(resource, model_class):
            self._tfmuster_model = resource
        return stock_track(self, resource)

    archive.track = track
    redirect_writer(
        archive, "write_out", lambda archive: _strategy_of(getattr(archive, "_tfmuster_model", None))
    )
    for owner, name in (
        (saving_api, "save_model"),
        (saving_api, "save_weights"),
        (model_visualization, "plot_model"),
    ):
        stock = getattr(owner, name)
        redirect_writer(owner, name)
        replace_everywhere(stock, getattr(owner, name))
    for owner, name in (
        (saving_api, "load_model"),
        (saving_api, "load_weights"),
        (saving_lib, "load_model"),
        (saving_lib, "load_weights_only"),
        (legacy_h5_format, "load_model_from_hdf5"),
    ):
        stock = getattr(owner, name)
        replace_everywhere(stock, reading_copies(stock))
    # It has no model, so it does not tell to which workers it belongs.
    editor = file_editor.KerasFileEditor
    redirect_writer(editor, "save", lambda editor: made_strategy())
    editor.__init__ = reading_copies(editor.__init__)


_BACKUP = (
    "backup_dir",
    "_weights_path",
    "_training_metadata_path",
    "_prev_weights_path",
    "_prev_training_metadata_path",
)


def _send_file(path: str, strategy: Any) -> None:
    """Copy the chief's file to ``path`` on every other worker; remove it there if the chief has none."""
    chief = is_chief(strategy)
    content = send_bytes(Path(path).read_bytes() if chief and os.path.exists(path) else None, strategy)
    if chief:
        return
    if content is None:
        Path(path).unlink(missing_ok=True)  # of an earlier fit, whose backup had the same name
    else:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(content)


def send_bytes(content: bytes | None, strategy: Any) -> bytes | None:
    """Return the chief's ``content`` on every worker. All workers must call it."""
    if jax_process_index() is not None:
        return send_bytes_in_jax(content)
    chief = is_chief(strategy)
    size = -1 if content is None else len(content)
    size = int(sum_of_workers(strategy, np.int64(size if chief else 0)))
    if size < 0:
        return None
    # Neither these sums nor TensorFlow's support bytes, so send int32 words; the other workers add zeros.
    words = np.zeros(-(-size // 4), np.int32)
    if chief and content is not None:
        words.view(np.uint8)[:size] = np.frombuffer(content, np.uint8)
    sent = sum_of_workers(strategy, words).numpy()
    return bytes(sent.view(np.uint8)[:size].tobytes())

"""Let callbacks and saving run on every worker, but keep only the files of the chief.

All workers save the same model under the same name. Only the chief writes the file of that name, and it may
not be complete, or may be on another machine, when another worker reads it. So a worker reads what it has
written itself. That needs no waiting, which would never end where only the chief saves.

Checkpoints of TensorFlow are written by all workers, and to one folder without getting in each other's way.
"""

from __future__ import annotations

import atexit
import contextlib
import contextvars
import functools
import inspect
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..system.register import Seam
from . import seams
from .process import PROCESS, is_chief, jax_process_index, multi_worker, send_bytes_in_jax
from .sums.collectives import sum_of_workers

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

#: Of an archive: the model that it exports.
_TRACKED = "_tfmuster_model"

#: Paths of a callback that backs up a training: its folder, and its files.
_BACKUP = (
    *("backup_dir", "_weights_path", "_training_metadata_path"),
    *("_prev_weights_path", "_prev_training_metadata_path"),
)

#: This worker's complete copies, by the absolute path that the program has named.
_copies: dict[str, str] = {}
_everywhere = contextvars.ContextVar("everywhere", default=False)


@contextlib.contextmanager
def saved_everywhere() -> Iterator[None]:
    """Inside the block, let every worker write the model to the path it names, which must be its own."""
    before = _everywhere.set(True)
    try:
        yield
    finally:
        _everywhere.reset(before)


def _strategy_of(model: keras.Model) -> tf.distribute.Strategy | None:
    """Return the strategy of TensorFlow under which a model was made; None on JAX."""
    return seams.MODEL_STRATEGY.of(model, None)


def patch_files() -> None:
    """Keep only the chief's files of Keras's functions and callbacks.

    All workers run them, because reading distributed values needs all. Workers other than the chief read
    their own copies.
    """
    # keras.saving.save_model, which R's keras3 calls, does not call Model.save.
    for seam in (seams.MODEL_SAVE, seams.MODEL_SAVE_WEIGHTS, seams.MODEL_EXPORT, *seams.WRITERS):
        seam.replace(_on_the_chief(seam.get()))
    for seam in seams.EXPORTED_WRITERS:
        seam.replace_everywhere(_on_the_chief(seam.get()))
    for seam in seams.READERS:
        seam.replace_everywhere(_reading_copies(seam.get()))
    # It has no model, so it does not tell to which workers it belongs.
    seams.EDITOR_SAVE.replace(_on_the_chief(seams.EDITOR_SAVE.get(), lambda editor: PROCESS.strategy))
    seams.EDITOR_INIT.replace(_reading_copies(seams.EDITOR_INIT.get()))
    _patch_archives()
    _patch_callbacks()


def patch_saved_models() -> None:
    """Keep only the chief's folder of ``tf.saved_model.save``; other workers load their own copies."""
    seams.SAVE_SAVED_MODEL.replace_everywhere(_on_the_chief(seams.SAVE_SAVED_MODEL.get()))
    seams.LOAD_SAVED_MODEL.replace_everywhere(_reading_copies(seams.LOAD_SAVED_MODEL.get()))


def _patch_archives() -> None:
    """Keep only the chief's folder of an ``ExportArchive``."""
    import keras

    # In newer releases of Keras, ExportArchive makes an object of another class.
    archive = type(seams.EXPORT_ARCHIVE.get()())
    stock_track = archive.track

    @functools.wraps(stock_track)
    def track(self: keras.export.ExportArchive, resource: object) -> Any:
        if isinstance(resource, keras.Model):
            setattr(self, _TRACKED, resource)
        return stock_track(self, resource)

    seams.TRACK.replace_in(archive, track)
    seams.WRITE_OUT.replace_in(
        archive,
        _on_the_chief(archive.write_out, lambda archive: _strategy_of(getattr(archive, _TRACKED, None))),
    )


def _patch_callbacks() -> None:
    """Let callbacks write elsewhere on workers other than the chief, and read the chief's backup on all."""

    def redirect(seam: Seam, *paths: str) -> None:
        stock = seam.get()

        @functools.wraps(stock)
        def set_model(self: keras.callbacks.Callback, model: keras.Model) -> None:
            if not is_chief(_strategy_of(model)):
                for path in (path for path in paths if hasattr(self, path)):
                    setattr(self, path, os.path.join(scratch(), os.path.basename(getattr(self, path))))
            stock(self, model)

        seam.replace(set_model)

    redirect(seams.TENSORBOARD_MODEL, "log_dir")
    redirect(seams.CSV_MODEL, "filename")
    redirect(seams.BACKUP_MODEL, *_BACKUP)
    stock_restore = seams.BACKUP_RESTORE.get()

    @functools.wraps(stock_restore)
    def restore(self: keras.callbacks.BackupAndRestore, logs: dict[str, object] | None = None) -> None:
        # Loading is collective, because some variables are broadcast: all workers must load the same file.
        strategy = _strategy_of(self.model)
        if jax_process_index() is not None or multi_worker(strategy):
            for path in _BACKUP[1:]:
                if hasattr(self, path):
                    _send_file(getattr(self, path), strategy)
        stock_restore(self, logs)

    seams.BACKUP_RESTORE.replace(restore)


def _on_the_chief(
    stock: Callable[..., Any], strategy_of: Callable[..., tf.distribute.Strategy | None] = _strategy_of
) -> Callable[..., Any]:
    """Return a function that takes a model and a path, and writes to the path on the chief alone.

    Other workers write copies of their own, which they read later. They don't ask whether to overwrite a file
    that the chief may have made a moment ago.
    """
    signature = inspect.signature(stock)
    first, second = list(signature.parameters)[:2]

    @functools.wraps(stock)
    def write(*args: object, **kwargs: object) -> Any:
        try:
            call = signature.bind(*args, **kwargs)
        except TypeError:
            return stock(*args, **kwargs)  # It reports what is wrong with the arguments.
        call.apply_defaults()
        path = call.arguments[second]
        if not isinstance(path, (str, os.PathLike)):
            return stock(*args, **kwargs)
        if _everywhere.get() or is_chief(strategy_of(call.arguments[first])):
            forget_copy(path)
            return stock(*args, **kwargs)
        with _writing_copy(path) as call.arguments[second]:
            if "overwrite" in signature.parameters:
                call.arguments["overwrite"] = True
            return stock(*call.args, **call.kwargs)

    return write


def _send_file(path: str, strategy: tf.distribute.Strategy | None) -> None:
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


def send_bytes(content: bytes | None, strategy: tf.distribute.Strategy | None) -> bytes | None:
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


@functools.cache
def scratch() -> str:
    """Return a temporary folder of this process, which is removed with it."""
    folder = tempfile.mkdtemp(prefix="tfmuster-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@contextlib.contextmanager
def _writing_copy(path: str | os.PathLike[str]) -> Iterator[str]:
    """Yield the place for this worker's copy of what the chief writes to ``path``.

    The copy counts when the block ends without an error. A function that saves may call another one with the
    place: that is used as it is.
    """
    named = _absolute(path)
    if named.startswith(scratch() + os.sep):
        yield named
        return
    before = _copies.pop(named, None)
    folder = os.path.dirname(before) if before else tempfile.mkdtemp(dir=scratch())
    copy = os.path.join(folder, os.path.basename(named))
    yield copy
    _copies[named] = copy


def forget_copy(path: str | os.PathLike[str]) -> None:
    """Read the chief's file from now on: it may be another one than this worker has written."""
    _copies.pop(_absolute(path), None)


def _reading_copies(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function read this worker's copy of its file (``filepath`` or ``export_dir``)."""
    signature = inspect.signature(stock)
    (name,) = {"filepath", "export_dir"} & {*signature.parameters}

    @functools.wraps(stock)
    def read(*args: object, **kwargs: object) -> Any:
        try:
            call = signature.bind(*args, **kwargs)
        except TypeError:
            return stock(*args, **kwargs)  # It reports what is wrong with the arguments.
        if isinstance(path := call.arguments.get(name), (str, os.PathLike)):
            call.arguments[name] = _place_to_read(path)
        return stock(*call.args, **call.kwargs)

    return read


def _place_to_read(path: str | os.PathLike[str]) -> str | os.PathLike[str]:
    """Return where this worker reads what the program calls ``path``: its own copy, if it has written one."""
    named = _absolute(path)
    # A saved folder, or the file of which one is a part.
    for parent in (named, *map(str, Path(named).parents)):
        if (copy := _copies.get(parent)) is not None:
            place = copy + named[len(parent) :]
            return place if isinstance(path, str) else Path(place)
    return path


def _absolute(path: str | os.PathLike[str]) -> str:
    text = os.fspath(path)
    return text.rstrip("/") if "://" in text else os.path.abspath(text)


@functools.cache
def patch_checkpoints() -> None:
    """Have each worker but the chief write ``tf.train.Checkpoint`` beside its place, and rename it.

    Every worker must take part, because TensorFlow sums some variables when it saves them, and all write the
    same values. In a folder that they share, they would remove each other's unfinished parts
    ("allow_missing_files was set to false"). On machines that share none, each keeps its own checkpoint, and
    reads it after a restart.
    """
    stock, executing_eagerly = seams.SAVER_SAVE.get(), seams.EXECUTING_EAGERLY.get()

    @functools.wraps(stock)
    def save(self: object, file_prefix: str, *args: object, **kwargs: object) -> Any:
        local = isinstance(file_prefix, str) and "://" not in file_prefix
        if not local or not executing_eagerly() or is_chief(PROCESS.strategy):
            return stock(self, file_prefix, *args, **kwargs)
        place, name = os.path.split(os.path.abspath(file_prefix))
        os.makedirs(place, exist_ok=True)
        folder = tempfile.mkdtemp(prefix=f".{name}-", dir=place)
        try:
            written = stock(self, os.path.join(folder, name), *args, **kwargs)
            # The index last: it says that the checkpoint is complete.
            for file in sorted(os.listdir(folder), key=lambda file: file.endswith(".index")):
                os.replace(os.path.join(folder, file), os.path.join(place, file))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        # TensorFlow returns a path, or a tensor of one, with checkpoint_number added to the name.
        path = os.fsdecode(written if isinstance(written, str | bytes) else written.numpy())
        return file_prefix + os.path.basename(path)[len(name) :]

    seams.SAVER_SAVE.replace(save)
    needed = (seams.MATCHING_FILES, seams.DELETE_FILE, seams.NOT_FOUND)
    if not all(seam.fits for seam in (seams.DELETE_CHECKPOINT, *needed)):
        return
    matching, remove, not_found = (seam.get() for seam in needed)

    # Another worker may be faster in removing the files of an old checkpoint, which is no warning.
    def delete(pattern: str) -> None:
        for path in matching(pattern):
            with contextlib.suppress(not_found):
                remove(path)

    seams.DELETE_CHECKPOINT.replace(delete)

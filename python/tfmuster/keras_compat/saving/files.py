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

from ...system.register import Seam
from .. import seams
from ..process import PROCESS, is_chief, jax_process_index, multi_worker, send_bytes_in_jax
from ..sums.collectives import sum_of_workers
from .copies import forget_copy, reading_copies, scratch, writing_copy

#: Of an archive: the model that it exports.
_TRACKED = "_tfmuster_model"
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
    return seams.MODEL_STRATEGY.of(model, None)


def patch_files() -> None:
    """Run saving on all workers, because reading distributed values needs all; keep the chief's files."""

    def redirect_callback(seam: Seam, *paths: str) -> None:
        stock = seam.get()

        @functools.wraps(stock)
        def set_model(self: Any, model: Any) -> None:
            if not is_chief(_strategy_of(model)):
                for path in (path for path in paths if hasattr(self, path)):
                    setattr(self, path, os.path.join(scratch(), os.path.basename(getattr(self, path))))
            stock(self, model)

        seam.replace(set_model)

    for seam in (seams.MODEL_SAVE, seams.MODEL_SAVE_WEIGHTS):
        seam.replace(on_the_chief(seam.get()))
    redirect_callback(seams.TENSORBOARD_MODEL, "log_dir")
    redirect_callback(seams.CSV_MODEL, "filename")
    redirect_callback(seams.BACKUP_MODEL, *_BACKUP)
    stock_restore = seams.BACKUP_RESTORE.get()

    @functools.wraps(stock_restore)
    def restore(self: Any, logs: Any = None) -> None:
        # Loading is collective, because some variables are broadcast: all workers must load the same file.
        strategy = _strategy_of(self.model)
        if jax_process_index() is not None or multi_worker(strategy):
            for path in _BACKUP[1:]:
                if hasattr(self, path):
                    _send_file(getattr(self, path), strategy)
        stock_restore(self, logs)

    seams.BACKUP_RESTORE.replace(restore)


def on_the_chief(
    stock: Callable[..., Any], strategy_of: Callable[[Any], Any] = _strategy_of
) -> Callable[..., Any]:
    """Return a function that takes a model and a path, and writes to the path on the chief alone.

    Other workers write copies of their own, which they read later. They don't ask whether to overwrite a file
    that the chief may have made a moment ago.
    """
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

    return write


def patch_saved_models() -> None:
    """Keep only the chief's folder of ``tf.saved_model.save``; other workers load their own copies."""
    seams.SAVE_SAVED_MODEL.replace_everywhere(on_the_chief(seams.SAVE_SAVED_MODEL.get()))
    seams.LOAD_SAVED_MODEL.replace_everywhere(reading_copies(seams.LOAD_SAVED_MODEL.get()))


def patch_writers() -> None:
    """Keep only the chief's files of the functions that write models, and of ``export``.

    Other workers read their own copies.
    """
    import keras

    # keras.saving.save_model, which R's keras3 calls, does not call Model.save.
    for seam in (*seams.WRITERS, seams.MODEL_EXPORT):
        seam.replace(on_the_chief(seam.get()))
    for seam in seams.EXPORTED_WRITERS:
        seam.replace_everywhere(on_the_chief(seam.get()))
    for seam in seams.READERS:
        seam.replace_everywhere(reading_copies(seam.get()))
    # In newer releases of Keras, ExportArchive makes an object of another class.
    archive = type(seams.EXPORT_ARCHIVE.get()())
    stock_track = archive.track

    @functools.wraps(stock_track)
    def track(self: Any, resource: Any) -> Any:
        if isinstance(resource, keras.Model):
            setattr(self, _TRACKED, resource)
        return stock_track(self, resource)

    seams.TRACK.replace_in(archive, track)
    seams.WRITE_OUT.replace_in(
        archive,
        on_the_chief(archive.write_out, lambda archive: _strategy_of(getattr(archive, _TRACKED, None))),
    )
    # It has no model, so it does not tell to which workers it belongs.
    seams.EDITOR_SAVE.replace(on_the_chief(seams.EDITOR_SAVE.get(), lambda editor: PROCESS.strategy))
    seams.EDITOR_INIT.replace(reading_copies(seams.EDITOR_INIT.get()))


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

"""Where workers other than the chief write what only the chief's file is kept of, and read it from again.

All workers save the same model under the same name. Only the chief writes the file of that name, and it may
not be complete, or may be on another machine, when another worker reads it. So a worker reads what it has
written itself. That needs no waiting, which would never end where only the chief saves.

Checkpoints of TensorFlow are written by all workers, and to one folder without getting in each other's way.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import inspect
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .. import seams
from ..process import PROCESS, is_chief

#: This worker's complete copies, by the absolute path that the program has named.
_copies: dict[str, str] = {}


@functools.cache
def scratch() -> str:
    """Return a temporary folder of this process, which is removed with it."""
    folder = tempfile.mkdtemp(prefix="tfmuster-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@contextmanager
def writing_copy(path: str | os.PathLike[str]) -> Iterator[str]:
    """Yield the place for this worker's copy of what the chief writes to ``path``.

    The copy counts when the block ends without an error. A function that saves may call another one with the
    place: that is used as it is.
    """
    named = _absolute(path)
    if _is_below(named, scratch()):
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


def place_to_read(path: Any) -> Any:
    """Return where this worker reads what the program calls ``path``: its own copy, if it has written one."""
    if not _copies or not isinstance(path, (str, os.PathLike)):
        return path
    named = _absolute(path)
    # A saved folder, or the file of which one is a part.
    for parent in (named, *map(str, Path(named).parents)):
        if (copy := _copies.get(parent)) is not None:
            found = copy + named[len(parent) :]
            return found if isinstance(path, str) else Path(found)
    return path


def reading_copies(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that reads a file, so that it reads this worker's copy of it.

    Its argument with the path is called ``filepath`` or ``export_dir``.
    """
    signature = inspect.signature(stock)
    (name,) = {"filepath", "export_dir"} & {*signature.parameters}

    @functools.wraps(stock)
    def read(*args: Any, **kwargs: Any) -> Any:
        if not _copies:
            return stock(*args, **kwargs)
        try:
            given = signature.bind(*args, **kwargs)
        except TypeError:
            return stock(*args, **kwargs)  # It reports what is wrong with the arguments.
        if name in given.arguments:
            given.arguments[name] = place_to_read(given.arguments[name])
        return stock(*given.args, **given.kwargs)

    return read


def _absolute(path: str | os.PathLike[str]) -> str:
    text = os.fspath(path)
    return text.rstrip("/") if "://" in text else os.path.abspath(text)


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(folder + os.sep)


@functools.cache
def patch_checkpoints() -> None:
    """Have each worker but the chief write ``tf.train.Checkpoint`` beside its place, and rename it.

    Every worker must take part, because TensorFlow sums some variables when it saves them, and all of them
    write the same values. In a folder that they share, they would remove each other's unfinished parts
    ("allow_missing_files was set to false"). On machines that share none, each keeps a checkpoint of its own,
    which it reads after a restart. A second call does nothing.
    """
    stock, executing_eagerly = seams.SAVER_SAVE.get(), seams.EXECUTING_EAGERLY.get()

    @functools.wraps(stock)
    def save(self: Any, file_prefix: Any, *args: Any, **kwargs: Any) -> Any:
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
        # With checkpoint_number, TensorFlow adds it to the name.
        return file_prefix + os.path.basename(_text(written))[len(name) :]

    seams.SAVER_SAVE.replace(save)
    needed = (seams.DELETE_CHECKPOINT, seams.MATCHING_FILES, seams.DELETE_FILE, seams.NOT_FOUND)
    if all(seam.fits for seam in needed):
        _delete_together()


def _delete_together() -> None:
    """Let another worker be faster in removing the files of an old checkpoint, without a warning."""
    matching, remove, not_found = (
        seam.get() for seam in (seams.MATCHING_FILES, seams.DELETE_FILE, seams.NOT_FOUND)
    )

    def delete(pattern: str) -> None:
        for path in matching(pattern):
            with contextlib.suppress(not_found):
                remove(path)

    seams.DELETE_CHECKPOINT.replace(delete)


def _text(written: Any) -> str:
    """Return the path that TensorFlow's saver has returned as a string, or as a tensor of one."""
    value = written if isinstance(written, str | bytes) else written.numpy()
    return value.decode() if isinstance(value, bytes) else str(value)

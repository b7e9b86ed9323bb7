"""Let the workers write one checkpoint of TensorFlow's to one folder without getting in each other's way."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import tempfile
from typing import Any

from . import seams
from .strategy_info import is_chief, made_strategy


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
        if not local or not executing_eagerly() or is_chief(made_strategy()):
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

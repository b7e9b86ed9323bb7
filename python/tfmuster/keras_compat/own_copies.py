"""Where workers other than the chief write what only the chief's file is kept of, and read it from again.

All workers save the same model under the same name. Only the chief writes the file of that name, and it may
not be complete, or may be on another machine, when another worker reads it. So a worker reads what it has
written itself. That needs no waiting, which would never end where only the chief saves.
"""

from __future__ import annotations

import atexit
import functools
import inspect
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

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

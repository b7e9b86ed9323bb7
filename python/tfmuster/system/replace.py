"""Replace a file or a folder at once, so that a reader meets the old or the new one, never a part of it."""

from __future__ import annotations

import contextlib
import functools
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

#: How the name of a file ends that is not whole yet. A process that is killed may leave one.
PART = ".part"


@contextlib.contextmanager
def replacing_file(path: Path, *, mode: int = 0o666, sync: bool = False) -> Iterator[BinaryIO]:
    """Open a new file that takes the place of `path` when the block ends well, and is removed otherwise.

    It is written beside `path`, under a hidden name that no other process, thread or machine uses, so several
    may replace one file at the same time; the last one stays.

    Parameters
    ----------
    path : Path
        The file to replace, or to create, in a folder that exists.
    mode : int
        Permissions of the new file, less those that the umask takes away.
    sync : bool
        Whether to wait until the content is on the disk before it takes the name, so that after a power
        failure, too, the name has the old content or the new one.

    Raises
    ------
    OSError
        It can't be written; `path` is as it was.
    """
    part = path.with_name(f".{path.name}.{os.urandom(8).hex()}{PART}")
    try:
        with open(part, "xb", opener=functools.partial(os.open, mode=mode)) as file:
            yield file
            if sync:
                file.flush()
                os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        # What went wrong matters more than what is left over.
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def replacing_path(path: Path) -> Iterator[Path]:
    """A path for a program to write a file or folder to, which takes the place of `path` as above.

    It has the name of `path`, in a hidden folder beside it: programs go by suffixes, and write further files
    of their own there. A folder that is replaced is out of the way for a moment, as it can't be done at once.

    Raises
    ------
    OSError
        It can't be written; `path` is as it was.
    """
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}-") as scratch:
        part = Path(scratch, path.name)
        yield part
        if not path.is_dir() or path.is_symlink():
            part.replace(path)
            return
        # A folder can't be renamed over another one that has something in it.
        part.stat()
        old = path.replace(Path(scratch, "replaced"))
        try:
            part.replace(path)
        except OSError:
            old.replace(path)
            raise

"""Replace a file or a folder atomically, so that a reader sees the old or the new one, never a part."""

from __future__ import annotations

import contextlib
import functools
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

#: Suffix of a file that is not complete yet. A process that is killed may leave one.
PART = ".part"


@contextlib.contextmanager
def replacing_file(path: Path, *, mode: int = 0o666, sync: bool = False) -> Iterator[BinaryIO]:
    """Open a new file that replaces `path` if the block ends without an error, and is removed otherwise.

    The new file is beside `path`, under a hidden name that no other process, thread or machine uses. So
    several writers can replace one file at the same time, and the last one wins. `mode` has the permissions,
    before the umask applies. With `sync`, the content is on the disk before the file gets its name, so the
    name has the old or the new content even after a power failure. If it raises OSError, `path` is unchanged.
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
        # The original error matters more than a file that is left over.
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def replacing_path(path: Path) -> Iterator[Path]:
    """Provide a path to which a program can write a file or folder, which then replaces `path`.

    It has the name of `path`, in a hidden folder beside it, because programs depend on suffixes and write
    more files there. Replacing a folder is not atomic: for a moment `path` does not exist. If it raises
    OSError, `path` is unchanged.
    """
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}-") as scratch:
        part = Path(scratch, path.name)
        yield part
        if not path.is_dir() or path.is_symlink():
            part.replace(path)
            return
        # A folder can't be renamed over another one that is not empty.
        part.stat()
        old = path.replace(Path(scratch, "replaced"))
        try:
            part.replace(path)
        except OSError:
            old.replace(path)
            raise

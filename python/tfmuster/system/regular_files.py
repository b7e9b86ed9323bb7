"""Read files of folders in which other users may write: regular files only, up to a size.

A FIFO waits for a writer, a device never ends, and a sparse file of 20 GB takes a moment to make.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_regular(path: Path | str) -> BinaryIO:
    """Open a regular file, or a link to one, to read its bytes. Raises OSError, also for anything else."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(descriptor, "rb")


def read_regular(path: Path | str, most: int) -> bytes:
    """Return the content of a regular file of at most `most` bytes. Raises OSError, also for a larger one."""
    with open_regular(path) as file:
        # A file may grow meanwhile.
        if os.fstat(file.fileno()).st_size > most or len(content := file.read(most + 1)) > most:
            raise OSError(errno.EFBIG, f"larger than {most >> 20} MB", str(path))
        return content

"""Read files of folders in which other users may write: regular files only, up to a size.

A FIFO waits for a writer, a device never ends, and a sparse file of 20 GB takes a moment to make.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

#: Bytes that are read at a time.
BLOCK = 1024 * 1024
#: Bytes of the lines that are read at a time.
_LINES = 256 * 1024
#: Bytes at the end of a file among which its last lines are looked for.
_MOST_READ = 1024 * BLOCK
#: Bytes that are kept of a line. A progress bar writes one line, of which a terminal shows the end.
_LONGEST = 64 * 1024


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
        return file.read(_size(file, path, most))


def each_block(path: Path | str, most: int, begin: int = 0) -> Iterator[list[bytes]]:
    """Yield the lines of a regular file of at most `most` bytes, some hundred KB of them at a time.

    The first is the one that begins at byte `begin`. Raises OSError, also for a larger file.
    """
    with open_regular(path) as file:
        remaining = _size(file, path, most) - file.seek(begin)
        # A file may grow as fast as it is read.
        while remaining > 0 and (lines := file.readlines(_LINES)):
            yield lines
            remaining -= sum(map(len, lines))


def _size(file: BinaryIO, path: Path | str, most: int) -> int:
    """Return the size of an open file. Raises OSError if it is larger than `most` bytes."""
    size = os.fstat(file.fileno()).st_size
    if size > most:
        raise OSError(errno.EFBIG, f"larger than {most >> 20} MB", str(path))
    return size


def read_last_lines(path: Path | str, lines: int) -> bytes:
    """Return the last lines of a file, each with its line end; of a line over 64 KB its end.

    Only these are read, in blocks, and at most 1 GB. Raises OSError, also for anything but a regular file.
    """
    if lines <= 0:
        return b""
    # The last line comes first. It is empty if a line end is the end of the file; then one more is kept.
    last_first: list[bytes] = []
    begun = b""
    with open_regular(path) as file:
        size = position = file.seek(0, os.SEEK_END)
        while position > max(0, size - _MOST_READ) and len(last_first) <= lines:
            step = min(BLOCK, position)
            position = file.seek(position - step)
            *others, end = file.read(step).split(b"\n")
            # One byte more tells that there was more.
            begun = begun if len(begun) > _LONGEST else (end + begun)[-_LONGEST - 1 :]
            if others:
                last_first.append(begun)
                begun, *others = others
                last_first += others[::-1]
    last_first.append(begun)
    kept = last_first[: lines + 1] if last_first[0] == b"" else last_first[:lines]
    return b"\n".join(map(_end_of, reversed(kept)))


def _end_of(line: bytes) -> bytes:
    """Return the end of a long line, from a carriage return on if it has any: a bar's last states."""
    if len(line) <= _LONGEST:
        return line
    end = line[-_LONGEST:]
    return end[max(0, end.find(b"\r")) :]

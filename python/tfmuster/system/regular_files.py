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
    return os.fdopen(_descriptor(path)[0], "rb")


def _descriptor(path: Path | str) -> tuple[int, int]:
    """Open a regular file, and return its descriptor and its size."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return descriptor, status.st_size


def read_regular(path: Path | str, most: int) -> bytes:
    """Return the content of a regular file of at most `most` bytes. Raises OSError, also for a larger one."""
    # A file object would take longer than to read one of the thousands of small files of a list of runs.
    descriptor, size = _descriptor(path)
    try:
        _check_size(size, path, most)
        return _read(descriptor, 0, size)
    finally:
        os.close(descriptor)


def _read(descriptor: int, begin: int, count: int) -> bytes:
    """Read so many bytes from byte `begin` on, or to the end of the file."""
    content = os.pread(descriptor, count, begin)
    # Not every file system returns all at once.
    while len(content) < count and (more := os.pread(descriptor, count - len(content), begin + len(content))):
        content += more
    return content


def each_block(path: Path | str, most: int, begin: int = 0) -> Iterator[list[bytes]]:
    """Yield the lines of a regular file of at most `most` bytes, some hundred KB of them at a time.

    The first is the one that begins at byte `begin`. Raises OSError, also for a larger file.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        _check_size(size, path, most)
        remaining = size - file.seek(begin)
        # A file may grow as fast as it is read.
        while remaining > 0 and (lines := file.readlines(_LINES)):
            yield lines
            remaining -= sum(map(len, lines))


def _check_size(size: int, path: Path | str, most: int) -> None:
    if size > most:
        raise OSError(errno.EFBIG, f"larger than {most >> 20} MB", str(path))


def read_last_lines(path: Path | str, lines: int) -> bytes:
    """Return the last lines of a file, each with its line end; of a line over 64 KB its end.

    Only these are read, in blocks, and at most 1 GB. Raises OSError, also for anything but a regular file.
    """
    if lines <= 0:
        return b""
    # The last line comes first. It is empty if a line end is the end of the file; then one more is kept.
    last_first: list[bytes] = []
    begun = b""
    descriptor, size = _descriptor(path)
    try:
        position = size
        while position > max(0, size - _MOST_READ) and len(last_first) <= lines:
            step = min(BLOCK, position)
            position -= step
            *others, end = _read(descriptor, position, step).split(b"\n")
            # One byte more tells that there was more.
            begun = begun if len(begun) > _LONGEST else (end + begun)[-_LONGEST - 1 :]
            if others:
                last_first.append(begun)
                begun, *others = others
                last_first += others[::-1]
    finally:
        os.close(descriptor)
    last_first.append(begun)
    kept = last_first[: lines + 1] if last_first[0] == b"" else last_first[:lines]
    return b"\n".join(map(_end_of, reversed(kept)))


def _end_of(line: bytes) -> bytes:
    """Return the end of a long line, from a carriage return on if it has any: a bar's last states."""
    if len(line) <= _LONGEST:
        return line
    end = line[-_LONGEST:]
    return end[max(0, end.find(b"\r")) :]

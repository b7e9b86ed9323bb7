"""Readers of files with rows: TFRecord, CSV, Parquet, and folders of images.

A reader has three methods. ``chunks(paths)`` finds out what rows the files have, without reading them if the
format allows it. ``read(chunk)`` returns the rows of a chunk, as arrays with one row each in the first
dimension. ``finish(columns)`` turns such arrays into what the model gets, such as ``(x, y)``. An object of
your own with these methods is a reader, too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy.typing as npt

from ...errors import DataError

#: Arrays with one row each in the first dimension.
Columns = tuple[npt.NDArray[Any], ...]

#: Most rows, and most bytes of text, that are read at once. Rows are shuffled within a chunk.
CHUNK_ROWS, CHUNK_BYTES = 1024, 1 << 22


@dataclass(frozen=True)
class Chunk:
    """Consecutive rows of a file; `first` is the number of the first one in it, from 0."""

    path: str
    rows: int
    first: int = 0
    #: What the reader needs to find the rows.
    where: Any = None


class Reader(Protocol):
    """Reads rows of files; see above."""

    def chunks(self, paths: Sequence[str]) -> list[Chunk]:
        """Return what rows the files have."""

    def read(self, chunk: Chunk) -> Columns:
        """Return the rows of a chunk."""

    def finish(self, columns: Columns) -> Any:
        """Return what the model gets of rows."""


def bad_file(
    message: str, path: str, reason: str, *, found: str, fix: str, row: int | None = None
) -> DataError:
    """Make the error of a file that can't be used; ``row`` is counted from 1."""
    place = f"{path}, row {row}" if row is not None else path
    return DataError(message, found=f"{found} ({place})", fix=fix, path=path, row=row, reason=reason)


def checked(paths: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Yield each file and its size; raise an error for the first that is missing or empty."""
    for path in paths:
        try:
            size = os.stat(path).st_size
        except OSError as error:
            raise bad_file(
                "Every file must be readable on every worker.",
                path,
                "missing-file",
                found=error.strerror or str(error),
                fix="check the path, and that the folder is shared between the machines",
            ) from error
        if size == 0:
            raise empty_file(path)
        yield path, size


def empty_file(path: str) -> DataError:
    """Make the error of a file without rows."""
    return bad_file(
        "Every file must have at least one row.",
        path,
        "empty-file",
        found="no rows",
        fix="write the file again, or leave it out",
    )

"""Refuse archives that unpack to far more than they hold, by the sizes that they declare."""

from __future__ import annotations

import zipfile
from pathlib import Path

from ..environment import unpacked_limit

#: An archive may always unpack to this many times its own size. Weights hardly shrink, data sets do.
_TIMES = 8


class TooLargeError(ValueError):
    """An archive declares more than the limit. The text says how much."""


def check_size(declared: int, size: int) -> None:
    """Raise TooLargeError if an archive of `size` bytes declares to hold too much.

    That is more than ``TFMUSTER_UNPACKED_GB``, by default 1 GB, and more than eight times `size`.
    """
    if declared > max(unpacked_limit(), _TIMES * size):
        raise TooLargeError(f"{size / 1e6:.1f} MB that declare to hold {declared / 1e9:.2f} GB")


def check_zip(archive: zipfile.ZipFile, size: int) -> None:
    """Check an open zip file of `size` bytes. Nothing reads more of a member than it declares."""
    check_size(sum(member.file_size for member in archive.infolist()), size)


def check_zip_file(path: Path) -> None:
    """Check a file, if it is a zip file."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            check_zip(archive, path.stat().st_size)

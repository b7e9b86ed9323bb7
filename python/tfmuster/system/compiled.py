"""Compile C files of tfmuster into libraries.

A library is compiled once for each version of its source, in less than a second, and kept in the user's cache
directory. A wheel may have libraries for usual systems (``scripts/compile_libraries.py``), which need no
compiler.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import shutil
import stat
import sys
import tempfile
from pathlib import Path
from typing import Final

from .ask import NoAnswerError, ask
from .replace import replacing_path

FLAGS: Final = ("-O3", "-std=c11", "-shared", "-fPIC")
LIBRARIES: Final = ("-ldl", "-lpthread")
#: The processors for which a wheel has libraries, and the oldest version of the GNU C library (of 2018).
PROCESSORS: Final = ("x86_64", "aarch64")
GLIBC: Final = (2, 28)
_COMPILE_SECONDS = 60


class NotCompiled(Exception):
    """A library can't be had here. The text says why."""


def compiled(source: Path) -> Path:
    """Return the library of a C file, compiled if package and cache have none. Raises NotCompiled."""
    if sys.platform != "linux":
        raise NotCompiled(f"it is for Linux only, and this is {platform.system()}")
    if (ready := prebuilt(source, platform.machine())).exists() and _glibc() >= GLIBC:
        return ready
    # Machines that share a home directory may have other processors and other versions of the C library.
    machine = "|".join([*FLAGS, platform.machine(), *platform.libc_ver()])
    digest = hashlib.sha256(source.read_bytes() + machine.encode()).hexdigest()
    path = _folder() / f"{source.stem}-{digest[:16]}.so"
    if _is_ours(path):
        return path
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        raise NotCompiled("this machine has no C compiler; install gcc or clang")
    # Other workers may compile at the same time: the rename decides, and all files are equal.
    try:
        with replacing_path(path) as part:
            answer = ask(compiler, *FLAGS, "-o", part, source, *LIBRARIES, seconds=_COMPILE_SECONDS)
            if answer.code:
                raise NotCompiled(f"{compiler} fails: {answer.first_line}")
            part.chmod(0o700)
    except (OSError, NoAnswerError) as error:
        raise NotCompiled(f"{compiler} fails: {error}") from error
    return path


def prebuilt(source: Path, processor: str) -> Path:
    """Return the path at which a wheel has the library of a C file for a processor."""
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    return source.with_name(f"{source.stem}-{digest[:16]}-{processor}.so")


def _glibc() -> tuple[int, ...]:
    """Return the version of the GNU C library; empty with another one."""
    name, version = platform.libc_ver()
    return tuple(map(int, version.split(".")[:2])) if name == "glibc" else ()


def _folder() -> Path:
    """Return a directory of this user alone, to keep the library in. Raises NotCompiled."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    places = (Path(cache) / "tfmuster", Path(tempfile.gettempdir()) / f"tfmuster-{os.getuid()}")
    for place in places:
        with contextlib.suppress(OSError):
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            if _is_ours(place) and os.access(place, os.W_OK):
                return place
    raise NotCompiled(f"neither {places[0]} nor {places[1]} is a directory that only this user can write to")


def _is_ours(path: Path) -> bool:
    """Return whether a path exists, belongs to this user, and can't be written by others."""
    try:
        status = path.lstat()
    except OSError:
        return False
    others = stat.S_IWGRP | stat.S_IWOTH
    return not stat.S_ISLNK(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & others

"""Download a file once on each machine, although each worker asks for it: ``keras.utils.get_file``.

Keras downloads to the file's own name. A second worker would write over it or read a part of it, and a
download that ended too early would look like a whole file in the next job. Here the other workers wait, and a
file or an unpacked archive gets its name when it is complete.
"""

from __future__ import annotations

import contextvars
import functools
import hashlib
import os
import tempfile
from pathlib import Path
from typing import Any

from ..system.only_one import only_one_process
from ..system.replace import replacing_path
from ..system.say import say
from . import seams


class _NotAnArchiveError(Exception):
    """Keras does not unpack this file."""


_in_get_file: contextvars.ContextVar[bool] = contextvars.ContextVar("in_get_file", default=False)


def patch_downloads() -> None:
    """Replace ``keras.utils.get_file``, and what it downloads and unpacks with."""
    needed = seams.GET_FILE, seams.URLRETRIEVE, seams.EXTRACT_ARCHIVE
    if not all(seam.fits for seam in needed):
        return
    get_file, urlretrieve, unpack = (seam.get() for seam in needed)

    @functools.wraps(get_file)
    def get_file_once(fname: Any = None, origin: Any = None, *args: Any, **kwargs: Any) -> Any:
        # Files of one name in different caches only wait for each other.
        name = os.path.basename(str(fname or origin))
        digest = hashlib.sha256(f"{os.getuid()} {name}".encode()).hexdigest()[:16]
        lock = Path(tempfile.gettempdir(), f"tfmuster-{digest}.lock")
        inside = _in_get_file.set(True)
        try:
            with only_one_process(
                lock, lambda: say(f"tfmuster: another process gets {name}; this one waits")
            ):
                return get_file(fname, origin, *args, **kwargs)
        finally:
            _in_get_file.reset(inside)

    @seams.URLRETRIEVE.wrap
    def urlretrieve_whole(url: str, filename: Any = None, *args: Any, **kwargs: Any) -> Any:
        if filename is None or not _in_get_file.get():
            return urlretrieve(url, filename, *args, **kwargs)
        with replacing_path(Path(filename)) as part:
            _, headers = urlretrieve(url, os.fspath(part), *args, **kwargs)
        return filename, headers

    @seams.EXTRACT_ARCHIVE.wrap
    def extract_once(file_path: Any, path: Any = ".", archive_format: Any = "auto") -> bool:
        if not _in_get_file.get():
            return bool(unpack(file_path, path, archive_format))
        archive, target = os.stat(file_path), Path(path)
        complete = target.with_name(f".{target.name}.complete")
        mark = f"{archive.st_size} {archive.st_mtime_ns}"
        if target.exists() and complete.exists() and complete.read_text() == mark:
            # Another worker may be reading it.
            return True
        try:
            with replacing_path(target) as part:
                if not unpack(file_path, os.fspath(part), archive_format):
                    raise _NotAnArchiveError
        except _NotAnArchiveError:
            return False
        complete.write_text(mark)
        return True

    seams.GET_FILE.replace_everywhere(get_file_once)

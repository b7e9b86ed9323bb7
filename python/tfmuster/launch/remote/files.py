"""Send and receive files over a connection, and find the files that a job sends."""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from ...errors import LaunchError
from ...net.channel import FILE, Frame, message

SCRIPTS = (".py", ".r")
#: Largest piece of output or of a file, in bytes.
PIECE = 65_536
#: Largest script that is sent, in bytes.
_LARGEST_SCRIPT = 16 << 20


def file_frames(path: Path, name: str) -> Iterator[Frame]:
    """Yield the frames of one file: its pieces, then its name at the other end."""
    with path.open("rb") as file:
        executable = bool(os.fstat(file.fileno()).st_mode & 0o100)
        while piece := file.read(PIECE):
            yield Frame(FILE, piece)
    yield message("file", path=name, executable=executable)


def changed_frames(folder: Path, sent: dict[str, tuple[int, int]], most: float) -> Iterator[Frame]:
    """Yield the frames of changed files in a folder, up to a size in bytes. `sent` records their state.

    Hidden files and folders are left out.
    """
    for path in sorted(folder.rglob("*")):
        # A file may be replaced or removed during this loop.
        with contextlib.suppress(OSError):
            within = path.relative_to(folder)
            if path.is_symlink() or not path.is_file() or any(part.startswith(".") for part in within.parts):
                continue
            name, status = str(within), path.stat()
            state = (status.st_mtime_ns, status.st_size)
            if status.st_size <= most and sent.get(name) != state:
                yield from file_frames(path, name)
                sent[name] = state


class Arriving:
    """Writes received files, only below a folder. A file appears there when it is complete.

    Parameters
    ----------
    folder : path
        Folder of the files.
    part : path
        File for incomplete data, on the same file system.
    may_arrive : callable
        Tells whether a file with these parts of its path is kept. By default, all are.
    place : callable, optional
        Tells where the file of a name is kept. By default, below the folder.
    """

    def __init__(
        self,
        folder: Path,
        part: Path,
        may_arrive: Callable[[Sequence[str]], bool] = lambda parts: True,
        place: Callable[[PurePosixPath], Path] | None = None,
    ) -> None:
        self._part, self._may_arrive = part, may_arrive
        self._place = place or (lambda name: folder / name)

    def add(self, piece: bytes) -> None:
        """Add the next piece of a file."""
        with self._part.open("ab") as file:
            file.write(piece)

    def keep(self, said: dict[str, Any]) -> bool:
        """Give the complete file its name. Return whether it was kept."""
        name = PurePosixPath(said["path"])
        if name.is_absolute() or ".." in name.parts or not name.parts or not self._may_arrive(name.parts):
            self.drop()
            return False
        path = self._place(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._part.touch()
        if said.get("executable"):
            self._part.chmod(self._part.stat().st_mode | 0o100)
        self._part.replace(path)
        return True

    def drop(self) -> None:
        """Discard an incomplete file."""
        self._part.unlink(missing_ok=True)


def script_to_send(path: Path) -> tuple[str, str]:
    """Return the path of a script, and its name in the folder that it is sent to.

    Raises
    ------
    LaunchError
        If the file can't be read, is not a script, or is too large.
    """
    if path.suffix.lower() not in SCRIPTS:
        raise LaunchError(
            "--copy sends a .py or .R script.", found=str(path), fix="Leave --copy out.", reason="copy"
        )
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise LaunchError(
            "The script to send must exist.", found=f"{path}: {error.strerror}", reason="script"
        ) from error
    if size > _LARGEST_SCRIPT:
        raise LaunchError(
            "--copy sends scripts, not data.",
            found=f"{path} has {size >> 20} MiB, more than {_LARGEST_SCRIPT >> 20}",
            fix="Copy it to the hosts.",
            reason="copy",
        )
    return str(path), place_of(path)


def files_to_send(paths: Iterable[str | os.PathLike[str]]) -> list[tuple[str, str]]:
    """Return the path of every file, also those in folders, and its name in the folder it is sent to.

    Raises
    ------
    LaunchError
        If a file can't be sent.
    """
    found: dict[str, str] = {}
    for given in map(Path, paths):
        for path in _regular(given):
            name = str(PurePosixPath(place_of(given), path.relative_to(given)))
            if not os.path.samefile(found.setdefault(name, str(path)), path):
                raise _not_sent(f"{found[name]} and {path}, both as {name}", "Rename one.")
    return [(path, name) for name, path in found.items()]


def not_kept(error: OSError) -> LaunchError:
    """Make the error for files that do not fit on this host."""
    return LaunchError(
        "The files that are sent must fit on the host.",
        found=f"{os.strerror(error.errno or 0).lower()} in {tempfile.gettempdir()} of {socket.gethostname()}",
        fix="Free some space, or set TMPDIR there to a file system with enough.",
        reason="copy",
    )


def _regular(given: Path) -> Iterator[Path]:
    """Yield a readable file, or all files in a folder."""
    folder = given.is_dir()
    paths = (Path(root, name) for root, _, names in os.walk(given) for name in names) if folder else [given]
    for path in sorted(paths):
        if path.exists() and not path.is_file():
            raise _not_sent(f"{path} is neither a file nor a folder", "Leave it out.")
        try:
            os.fspath(path).encode()
            path.open("rb").close()
        except UnicodeEncodeError:
            raise _not_sent(f"{os.fsencode(path)!r}: the name is no UTF-8", "Rename it.") from None
        except OSError as error:
            raise _not_sent(f"{path}: {error.strerror}", "Check the path.") from error
        yield path


def place_of(path: str | os.PathLike[str]) -> str:
    """Return a path relative to the working directory; for a path outside of it, only the file name."""
    whole, here = Path(os.path.abspath(path)), Path.cwd()
    return str(PurePosixPath(whole.relative_to(here) if whole.is_relative_to(here) else whole.name))


def _not_sent(found: str, fix: str) -> LaunchError:
    return LaunchError("--file sends files and folders.", found=found, fix=fix, reason="copy")

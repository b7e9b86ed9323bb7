"""Send and receive files over a connection, find those to send, and decide where received ones are kept."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import socket
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import orjson

from ...errors import LaunchError
from ...net.channel import FILE, Frame, message
from ...options.hints import Hint
from ...tracking.record.layout import (
    ARRIVED,
    CONTINUED,
    FILES,
    MODEL,
    NAMES,
    append_json,
    checkpoint_step,
    file_stem,
    may_arrive,
)
from ...words import Words

#: A message over a connection: an object of JSON.
Message = dict[str, Any]

SCRIPTS = (".py", ".r")

#: Largest piece of output or of a file, in bytes.
PIECE = 65_536

#: Folders of an agent: the working directory of a job whose files are sent, and the run directory of a worker
#: that does not share the launcher's. What the launcher sends is in either.
WORK, RUN = "work", "run"

#: Folders whose files have any names: a checkpoint is one of tfmuster's elsewhere only.
_OF_THE_PROGRAM = (WORK, FILES)

#: Largest script that is sent, in bytes.
_LARGEST_SCRIPT = 16 << 20
_COPY = Hint("copy", True)


def file_frames(path: Path, name: str) -> Iterator[Frame]:
    """Yield the frames of one file: its pieces, then its name at the other end.

    Raises OSError if the file can't be read, or its name is not UTF-8. The other end drops the pieces then.
    """
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise OSError(errno.EILSEQ, os.strerror(errno.EILSEQ), name) from error
    with path.open("rb") as file:
        executable = bool(os.fstat(file.fileno()).st_mode & 0o100)
        try:
            while piece := file.read(PIECE):
                yield Frame(FILE, piece)
        except OSError:
            yield message("file", path=name, incomplete=True)
            raise
    yield message("file", path=name, executable=executable)


class DamagedError(Exception):
    """A file arrived incomplete, or a checkpoint damaged. Its text is the name."""


class Arriving:
    """Writes received files. A file appears at its place when it is complete.

    `part` is a file for incomplete data, on the same file system. `may_arrive` tells whether a file with
    these parts of its path is kept, and `place` where.
    """

    def __init__(
        self,
        part: Path,
        may_arrive: Callable[[Sequence[str]], bool],
        place: Callable[[PurePosixPath], Path],
    ) -> None:
        self._part, self._may_arrive, self._place = part, may_arrive, place
        # A process that was killed in the middle of a file leaves it, and `add` appends.
        part.unlink(missing_ok=True)
        self._checksum = _Checksum()

    def add(self, piece: bytes) -> None:
        """Add the next piece of a file."""
        self._checksum.add(piece)
        with self._part.open("ab") as file:
            file.write(piece)

    def keep(self, message: Message) -> bool:
        """Give the complete file its name. Return whether it was kept.

        Raises DamagedError if the sender could not read the whole file, or it is a damaged checkpoint.
        """
        name = self._name(message)
        if name is None:
            self.drop()
            return False
        if message.get("incomplete"):
            self.drop()
            raise DamagedError(str(name))
        self._part.touch()
        if checkpoint_step(name.name) is not None and name.parts[0] not in _OF_THE_PROGRAM:
            if not self._checksum.holds():
                self.drop()
                raise DamagedError(str(name))
            with self._part.open("rb") as file:
                os.fsync(file.fileno())
        path = self._place(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if message.get("executable"):
            self._part.chmod(self._part.stat().st_mode | 0o100)
        self._part.replace(path)
        self._checksum = _Checksum()
        return True

    def remove(self, message: Message) -> None:
        """Remove a checkpoint that was removed at the other end, if there is a newer one here."""
        name = self._name(message)
        step = None if name is None else checkpoint_step(name.name)
        if name is None or step is None:
            return
        path = self._place(name)
        steps = [checkpoint_step(other.name) for other in path.parent.glob("*")]
        if any(other is not None and other > step for other in steps):
            path.unlink(missing_ok=True)

    def drop(self) -> None:
        """Discard an incomplete file."""
        self._part.unlink(missing_ok=True)
        self._checksum = _Checksum()

    def _name(self, message: Message) -> PurePosixPath | None:
        """Return the name of a file; None if it may not be kept."""
        name = PurePosixPath(message["path"])
        if name.is_absolute() or ".." in name.parts or not name.parts or not self._may_arrive(name.parts):
            return None
        return name


class _Checksum:
    """Compares a checkpoint's content with the checksum at its beginning, while the pieces arrive."""

    def __init__(self) -> None:
        self._begin = b""
        self._sum = hashlib.sha256()

    def add(self, piece: bytes) -> None:
        missing = hashlib.sha256().digest_size - len(self._begin)
        self._begin += piece[:missing]
        self._sum.update(piece[missing:])

    def holds(self) -> bool:
        return self._begin == self._sum.digest()


def script_to_send(path: Path) -> tuple[str, str]:
    """Return the path of a script, and its name at the other end. Raises LaunchError if it can't be sent."""
    if path.suffix.lower() not in SCRIPTS:
        raise LaunchError(
            Words("{} sends a .py or .R script.", _COPY),
            found=str(path),
            fix=Words("Leave {} out.", _COPY),
            reason="copy",
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
            Words("{} sends scripts, not data.", _COPY),
            found=f"{path} has {size >> 20} MiB, more than {_LARGEST_SCRIPT >> 20}",
            fix="Copy it to the hosts.",
            reason="copy",
        )
    return str(path), place_of(path)


def files_to_send(paths: Iterable[str | os.PathLike[str]]) -> list[tuple[str, str]]:
    """Return the path of every file, also those in folders, and its name in the folder it is sent to.

    Raises LaunchError if a file can't be sent.
    """
    path_of: dict[str, str] = {}
    for root in map(Path, paths):
        for path in _regular(root):
            name = str(PurePosixPath(place_of(root), path.relative_to(root)))
            if not os.path.samefile(path_of.setdefault(name, str(path)), path):
                raise _not_sent(f"{path_of[name]} and {path}, both as {name}", "Rename one.")
    return [(path, name) for name, path in path_of.items()]


def not_kept(error: OSError) -> LaunchError:
    """Make the error for files that do not fit on this host."""
    return LaunchError(
        "The files that are sent must fit on the host.",
        found=f"{os.strerror(error.errno or 0).lower()} in {tempfile.gettempdir()} of {socket.gethostname()}",
        fix="Free some space, or set TMPDIR there to a file system with enough.",
        reason="copy",
    )


def _regular(root: Path) -> Iterator[Path]:
    """Yield a readable file, or all files in a folder."""
    below = [Path(folder, name) for folder, _, names in os.walk(root) for name in names]
    for path in sorted(below) if root.is_dir() else [root]:
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
    return LaunchError(
        Words("{} sends files and folders.", Hint("files")), found=found, fix=fix, reason="copy"
    )


class Arrivals:
    """The places of the files that one task sends, which replace none of the user's.

    A host replaces only what hosts of this run have sent before, which ``arrived.jsonl`` lists, and what a
    run continues: checkpoints and the model. Under any other name that is taken, its file is kept in a folder
    of the task, ``from-worker-1``, and `tell` gets a text about it.
    """

    def __init__(self, run_dir: Path, task: str, tell: Callable[[str], None]) -> None:
        self._run_dir = run_dir
        self._aside = f"from-{file_stem(task)}"
        self._tell = tell
        self._places: dict[PurePosixPath, Path] = {}
        self._arrived: set[str] = set()

    def place(self, name: PurePosixPath) -> Path:
        """Return where to keep the file with this name; the name is within the run directory."""
        if name not in self._places:
            self._places[name] = self._new_place(name)
        return self._places[name]

    def _new_place(self, name: PurePosixPath) -> Path:
        path = self._run_dir / name
        first = name.parts[0]
        if first in (*NAMES, MODEL) or first.startswith("checkpoints"):
            # What a run continues, or what a new run has not found.
            return path
        # In this order: another task's proxy notes a name before its file is there.
        if os.path.lexists(path) or self._leads_elsewhere(name):
            # Names are only added, so the file is read again for one that is not known.
            if str(name) not in self._arrived:
                self._arrived = _arrived(self._run_dir)
            if str(name) in self._arrived:
                return path
            self._tell(f"{name} is kept in {self._aside}: the run directory has another file of this name")
            return self._run_dir / self._aside / name
        append_json(self._run_dir / ARRIVED, {"file": str(name)})
        return path

    def _leads_elsewhere(self, name: PurePosixPath) -> bool:
        """Return whether a folder on the way is a link, or a file."""
        folders = [self._run_dir / folder for folder in name.parents if folder.parts]
        return any(os.path.lexists(path) and (path.is_symlink() or not path.is_dir()) for path in folders)


def files_to_continue(run_dir: Path, task: str) -> list[tuple[str, str]]:
    """Return path and name of the files that a task on another machine needs to continue a run."""
    checkpoints = [path.relative_to(run_dir) for path in run_dir.glob("checkpoints*/*")]
    names = {
        *map(PurePosixPath, CONTINUED),
        *(PurePosixPath(path) for path in checkpoints if checkpoint_step(path.name) is not None),
        *(name for name in map(PurePosixPath, _arrived(run_dir)) if name.parts[0] not in (*NAMES, FILES)),
    }
    return [
        (str(run_dir / name), str(name))
        for name in sorted(names)
        if may_arrive(task, name.parts) and (run_dir / name).is_file()
    ]


def _arrived(run_dir: Path) -> set[str]:
    """Return the names that hosts have sent, in this start of the run or an earlier one."""
    names = set()
    with contextlib.suppress(OSError):
        for line in (run_dir / ARRIVED).read_bytes().splitlines():
            with contextlib.suppress(orjson.JSONDecodeError, TypeError, KeyError):
                names.add(str(orjson.loads(line)["file"]))
    return names

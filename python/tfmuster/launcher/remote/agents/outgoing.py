"""Send a worker's files to the launcher: those of its run directory, and those that its program writes."""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import socket
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from ....net.channel import Frame, message
from ....tracking.record.layout import FILES, checkpoint_step
from ..files import file_frames

#: Files up to this size are sent while the worker runs, larger ones after it has ended.
_SMALL: Final = 65_536

#: For how long files are sent before the worker's output has its turn, in seconds.
_TURN_SECONDS: Final = 0.05

#: Time and size of a file, by which a change is seen.
_State = tuple[int, int]


class FileState(NamedTuple):
    """A file below a folder, as it is now."""

    name: str
    state: _State

    @property
    def folder(self) -> PurePosixPath:
        """Its folder, below that folder."""
        return PurePosixPath(self.name).parent

    @property
    def step(self) -> int | None:
        """The step of a checkpoint; None for another file."""
        return checkpoint_step(PurePosixPath(self.name).name)


class Outgoing:
    """The files of one worker on their way.

    While the worker runs, these are sent: small files, and the newest checkpoint of each folder, whatever its
    size. A checkpoint that a newer one has replaced before its turn is left out. So the launcher has the
    newest one even if this host is lost, and is never further behind than one checkpoint takes to send.
    Hidden files and folders in the worker's run directory are not sent.
    """

    def __init__(self, folder: Path, write: Callable[[Frame], None]) -> None:
        self._folder, self._write = folder, write
        # What the launcher has sent need not go back.
        self._sent = {file.name: file.state for file in files_below(self._folder)}
        #: The step of the newest checkpoint of each folder that was sent.
        self._latest: dict[PurePosixPath, int] = {}
        self._frames: Iterator[Frame] = iter(())

    def look(self) -> None:
        """Send what has changed, in the turns that follow. What is under way is sent first."""
        if not self.turn():
            self._frames = self._changed(at_end=False)

    def turn(self) -> bool:
        """Send for a short time. Return whether there is more to send."""
        until = time.monotonic() + _TURN_SECONDS
        for frame in self._frames:
            self._write(frame)
            if time.monotonic() > until:
                return True
        return False

    def rest(self) -> None:
        """Send all that has changed, after the worker has ended."""
        for frame in self._frames:
            self._write(frame)
        for frame in self._changed(at_end=True):
            self._write(frame)

    def _changed(self, *, at_end: bool) -> Iterator[Frame]:
        """Yield the frames of changed files, and the names of sent checkpoints that have been removed."""
        here = files_below(self._folder)
        files = [file for file in here if self._sent.get(file.name) != file.state]
        newest = self._newest(files)

        def rank(file: FileState) -> int:
            if file.step is not None:
                return 1 if file == newest.get(file.folder) else 2
            return 0 if file.state[1] <= _SMALL else 2

        for file in sorted(files, key=rank):
            if rank(file) == 2 and not at_end:
                continue
            # It may be removed before its turn.
            with contextlib.suppress(OSError):
                yield from file_frames(self._folder / file.name, file.name)
                self._sent[file.name] = file.state
                if file.step is not None:
                    self._latest[file.folder] = max(file.step, self._latest.get(file.folder, 0))
        for name in sorted(self._sent.keys() - {file.name for file in here}):
            replaced_by = newest.get(PurePosixPath(name).parent)
            if replaced_by is None or self._sent.get(replaced_by.name) == replaced_by.state:
                del self._sent[name]
                if checkpoint_step(PurePosixPath(name).name) is not None:
                    yield message("removed", path=name)

    def _newest(self, files: Sequence[FileState]) -> dict[PurePosixPath, FileState]:
        """Return the newest checkpoint of each folder, if it is newer than those that this host has sent."""
        newest: dict[PurePosixPath, FileState] = {}
        for file in files:
            if file.step is not None and file.step > self._latest.get(file.folder, -1):
                before = newest.setdefault(file.folder, file)
                newest[file.folder] = max(before, file, key=lambda file: file.step or 0)
        return newest


def files_below(folder: Path) -> list[FileState]:
    """Return the regular files below a folder, but hidden ones and those in hidden folders."""
    files = []
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            path = Path(place, name)
            # It may be replaced or removed during this loop.
            with contextlib.suppress(OSError):
                status = path.lstat()
                if stat.S_ISREG(status.st_mode) and not name.startswith("."):
                    within = str(path.relative_to(folder))
                    files.append(FileState(within, (status.st_mtime_ns, status.st_size)))
    return sorted(files)


#: How many names of files are said.
_NAMED: Final = 3


class WorkingFolder:
    """The working folder of the chief's program, whose new and changed files are sent to the launcher.

    The launcher sends a script and files to a folder of the agent's own (``--copy``, ``--file``, Spark),
    which is removed at the end. At most `limit` MB come back, without hidden files and Python's bytecode.
    `came` waits for the launcher's answer that all has come, and returns the names that it did not keep.
    """

    def __init__(
        self, folder: Path, limit: int, write: Callable[[Frame], None], came: Callable[[], Sequence[str]]
    ) -> None:
        self._limit = limit << 20
        self._folder, self._write, self._came = folder, write, came
        #: What the launcher has, by name.
        self._known = {file.name: file.state for file in files_below(folder)}
        #: Where files are that did not come back. The launcher learns the name before they are there.
        self.kept = Path(tempfile.gettempdir(), f"tfmuster-kept-{secrets.token_hex(4)}")

    def bring_back(self) -> None:
        """Send the new and changed files, the smallest first, and keep those that don't arrive."""
        changed = sorted(self._changed(), key=lambda file: file.state[1])
        fit = sum(size <= self._limit for size in itertools.accumulate(file.state[1] for file in changed))
        sent = [file for file in changed[:fit] if self._send(file.name)]
        if sent:
            self._write(message("back"))
            refused = self._came()
            sent = [file for file in sent if _at_launcher(file.name) not in refused]
            self._known |= {file.name: file.state for file in sent}
        if sent:
            names = sorted(file.name for file in sent)
            self._say(f"{_names(names)} came back, to {FILES}/ of the run directory")
        kept, large = self.keep(), {file.name for file in changed[fit:]}
        for why, names in (
            ("too large to come back", [name for name in kept if name in large]),
            ("unreadable, or refused by the launcher", [name for name in kept if name not in large]),
        ):
            if names:
                self._say(f"{_names(names)}: {why}, kept on {socket.gethostname()} in {self.kept}")

    def keep(self) -> list[str]:
        """Move what has not come back out of the folder, which is removed. Return the names."""
        names = []
        for file in self._changed():
            with contextlib.suppress(OSError):
                # The folder that they were in is this user's alone, too.
                self.kept.mkdir(mode=0o700, exist_ok=True)
                place = self.kept / file.name
                place.parent.mkdir(parents=True, exist_ok=True)
                (self._folder / file.name).replace(place)
                names.append(file.name)
        return names

    def _changed(self) -> list[FileState]:
        return [
            file
            for file in files_below(self._folder)
            if self._known.get(file.name) != file.state
            and "__pycache__" not in PurePosixPath(file.name).parts
        ]

    def _send(self, name: str) -> bool:
        """Send a file. Return whether it could be read."""
        try:
            for frame in file_frames(self._folder / name, _at_launcher(name)):
                self._write(frame)
        except OSError:
            return False
        return True

    def _say(self, text: str) -> None:
        # A name may not be UTF-8.
        self._write(message("say", text=text.encode(errors="backslashreplace").decode()))


def _at_launcher(name: str) -> str:
    return f"{FILES}/{name}"


def _names(names: Sequence[str]) -> str:
    first, rest = names[:_NAMED], names[_NAMED:]
    return ", ".join(first) + (f" and {len(rest)} more" if rest else "")

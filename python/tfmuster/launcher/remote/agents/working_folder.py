"""Bring what the chief's program has written into its working folder on a host back to the launcher.

The launcher sends a script and files to a folder of the agent's own (``--copy``, ``--file``, Spark), which is
removed at the end. The last line of many programs is ``model.save("model.keras")``: that file would be gone.
"""

from __future__ import annotations

import contextlib
import itertools
import secrets
import socket
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from ....net.channel import Frame, message
from ....tracking.record.layout import FILES
from ..files import file_frames
from .outgoing import FileState, files_below

#: How many names are said.
_NAMED: Final = 3


class WorkingFolder:
    """The working folder of a worker, whose new and changed files are the launcher's.

    Parameters
    ----------
    folder : Path
        The folder, with what the launcher has sent. Hidden files and Python's bytecode are left out.
    limit : int
        How much comes back at most, in MB.
    write : callable
        Sends a frame.
    came : callable
        Waits for the launcher's answer that all has come, and returns the names that it did not keep. If the
        connection is lost, the agent ends first.
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

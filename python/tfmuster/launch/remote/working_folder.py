"""Bring what the chief's program has written into its working folder on a host back to the launcher.

The launcher sends a script and files to a folder of the agent's own (``--copy``, ``--file``, Spark), which is
removed at the end. The last line of many programs is ``model.save("model.keras")``: that file would be gone.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath
from typing import Final

from ...net.channel import OUTPUT, Frame, message
from ...runs.layout import FILES
from .files import file_frames
from .outgoing import FileState, files_below

#: How much comes back at most, in bytes.
FETCH_LIMIT: Final = 2 << 30
#: How many names are said.
_NAMED: Final = 3


class WorkingFolder:
    """The working folder of a worker, whose new and changed files are the launcher's.

    Parameters
    ----------
    folder : Path
        The folder, with what the launcher has sent. Hidden files and Python's bytecode are left out.
    write : callable
        Sends a frame.
    came : callable
        Waits for the launcher's answer that all has come. If the connection is lost, the agent ends first.
    """

    def __init__(self, folder: Path, write: Callable[[Frame], None], came: Callable[[], object]) -> None:
        self._folder, self._write, self._came = folder, write, came
        #: What the launcher has, by name.
        self._known = {file.name: file.state for file in files_below(folder)}
        #: Where files are that did not come back. Nobody else knows the name before.
        self.kept = Path(tempfile.gettempdir(), f"tfmuster-kept-{secrets.token_hex(4)}")

    def bring_back(self) -> None:
        """Send the new and changed files, the smallest first, and keep those that are too large."""
        sent, room = [], FETCH_LIMIT
        for file in sorted(self._changed(), key=lambda file: file.state[1]):
            if file.state[1] > room:
                break
            with contextlib.suppress(OSError):
                for frame in file_frames(self._folder / file.name, f"{FILES}/{file.name}"):
                    self._write(frame)
                room -= file.state[1]
                sent.append(file)
        if sent:
            self._write(message("back"))
            self._came()
            self._known |= {file.name: file.state for file in sent}
            names = _names(sorted(file.name for file in sent))
            self._say(f"{names} came back, to {FILES}/ of the run directory")
        if large := self.keep():
            host = socket.gethostname()
            self._say(f"{_names(large)}: too large to come back, kept on {host} in {self.kept}")

    def keep(self) -> list[str]:
        """Move what has not come back out of the folder, which is removed. Return the names."""
        names = []
        for file in self._changed():
            with contextlib.suppress(OSError):
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

    def _say(self, text: str) -> None:
        self._write(Frame(OUTPUT, f"tfmuster: {text}\n".encode()))


def _names(names: Iterable[str]) -> str:
    first, rest = list(names)[:_NAMED], list(names)[_NAMED:]
    return ", ".join(first) + (f" and {len(rest)} more" if rest else "")

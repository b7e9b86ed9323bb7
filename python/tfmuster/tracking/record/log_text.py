"""Find the logs of a run, and read their text, which may be much larger than memory."""

from __future__ import annotations

import os
from pathlib import Path

from ...system.regular_files import open_regular
from ...system.terminal_text import decoded
from .layout import task_of, task_order

#: Bytes that are read at a time.
BLOCK = 1024 * 1024
#: Bytes at the end of a file among which its last lines are looked for.
_MOST_READ = 1024 * BLOCK
#: Bytes that are kept of a line. A progress bar writes one line, of which a terminal shows the end.
_LONGEST = 64 * 1024


def log_paths(run_dir: Path) -> dict[str, Path]:
    """Return the path of each task's log in a run directory, by the task's name, such as ``worker 0``."""
    paths = sorted((run_dir / "logs").glob("*-*.log"), key=task_order)
    return {task_of(path.stem): path for path in paths if path.is_file()}


def separate(path: Path, line: str) -> None:
    """Append a line to a log that parts the output of two starts."""
    with path.open("ab+") as log:
        cut = ""
        if log.tell():
            log.seek(-1, 2)
            # The output of a killed worker may end in the middle of a line.
            cut = "" if log.read() == b"\n" else "\n"
        log.write(f"{cut}---- {line} ----\n".encode())


def whole_text(path: Path, encoding: str | None = None) -> str:
    """Return the whole text of a file. Lines that are not UTF-8 are in this encoding."""
    with open_regular(path) as file:
        return decoded(file.read(), encoding).replace("\r\n", "\n").replace("\r", "\n")


def last_lines(path: Path, lines: int, encoding: str | None = None) -> str:
    """Return the last lines of a file, each with its line end; of a line over 64 KB its end.

    Only these are read, in blocks, and at most 1 GB. Lines that are not UTF-8 are in this encoding.
    """
    if lines <= 0:
        return ""
    # The last line comes first. It is empty if a line end is the end of the file; then one more is kept.
    last_first: list[bytes] = []
    begun = b""
    with open_regular(path) as file:
        size = position = file.seek(0, os.SEEK_END)
        while position > max(0, size - _MOST_READ) and len(last_first) <= lines:
            step = min(BLOCK, position)
            position = file.seek(position - step)
            *others, end = file.read(step).split(b"\n")
            # One byte more tells that there was more.
            begun = begun if len(begun) > _LONGEST else (end + begun)[-_LONGEST - 1 :]
            if others:
                last_first.append(begun)
                begun, *others = others
                last_first += others[::-1]
    last_first.append(begun)
    kept = last_first[: lines + 1] if last_first[0] == b"" else last_first[:lines]
    return decoded(b"\n".join(map(_end_of, reversed(kept))), encoding)


def _end_of(line: bytes) -> bytes:
    """Return the end of a long line, from a carriage return on if it has any: a bar's last states."""
    if len(line) <= _LONGEST:
        return line
    end = line[-_LONGEST:]
    return end[max(0, end.find(b"\r")) :]

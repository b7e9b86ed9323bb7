"""Read the text of a log file, which may be much larger than memory."""

from __future__ import annotations

import os
from pathlib import Path

#: Bytes that are read at a time.
BLOCK = 1024 * 1024


def whole_text(path: Path) -> str:
    """Return the whole text of a file."""
    return path.read_text(encoding="utf-8", errors="replace")


def last_lines(path: Path, lines: int) -> str:
    """Return the last lines of a file, each with its line end. Only these are read, in blocks."""
    if lines <= 0:
        return ""
    end = b""
    with path.open("rb") as file:
        position = file.seek(0, os.SEEK_END)
        # The last line end belongs to the last line.
        while position > 0 and end.count(b"\n", 0, -1) < lines:
            step = min(BLOCK, position)
            position = file.seek(position - step)
            end = file.read(step) + end
    parts = end.split(b"\n")
    kept = parts[-lines - 1 :] if parts[-1] == b"" else parts[-lines:]
    return b"\n".join(kept).decode("utf-8", errors="replace")

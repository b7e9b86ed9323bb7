"""Find the logs of a run, and read their text, which may be much larger than memory."""

from __future__ import annotations

from pathlib import Path

from ...system.regular_files import open_regular, read_last_lines
from ...system.terminal_text import decoded
from .layout import task_of, task_order


def log_paths(run_dir: Path) -> dict[str, Path]:
    """Return the path of each task's log in a run directory, by the task's name, such as ``worker 0``."""
    paths = sorted((run_dir / "logs").glob("*-*.log"), key=lambda path: task_order(path.stem))
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
    """Return what `read_last_lines` does as text. Lines that are not UTF-8 are in this encoding."""
    return decoded(read_last_lines(path, lines), encoding)

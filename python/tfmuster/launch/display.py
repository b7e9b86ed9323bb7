"""What a launcher shows while a job runs: its workers' lines, and on a terminal a table under them.

The table is drawn again and again below the lines that scroll, and is gone when the job has ended. Where
there is no terminal, the lines are all that is written, without an escape code.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from .output import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

#: A row of the table: task, host, and in words what it is doing.
Row = tuple[str, str, str]

_EVERY_SECONDS = 0.5
_STYLES = {"failed": "red", "done": "green", "training": "cyan", "waiting": "yellow"}


class Plain:
    """Writes lines as they come."""

    def line(self, text: str) -> None:
        """Write one line."""
        sys.stdout.write(f"{text}\n")

    def look(self, rows: Callable[[], Sequence[Row]]) -> None:
        """Let everything that was written be seen; ask for `rows` if they are to be shown."""
        sys.stdout.flush()

    def close(self) -> None:
        """Show nothing any more but what has scrolled."""
        sys.stdout.flush()


class LiveTable(Plain):
    """Writes lines as they come, and keeps a table of the workers below them."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = Console(file=sys.stdout)
        # Drawn by the caller's thread alone: R takes output from no other.
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._next = 0.0

    def line(self, text: str) -> None:
        """Write one line above the table."""
        # As it is: neither cut where the terminal ends, nor coloured, nor read as markup.
        self._console.print(text, markup=False, highlight=False, emoji=False, soft_wrap=True)

    def look(self, rows: Callable[[], Sequence[Row]]) -> None:
        """Draw the table again, if it is time."""
        if time.monotonic() >= self._next:
            self._live.start()
            self._next = time.monotonic() + _EVERY_SECONDS
            self._live.update(_table(rows(), self._console), refresh=True)

    def close(self) -> None:
        """Take the table away and show the cursor again."""
        self._live.stop()
        self._next = float("inf")


def display(show: str) -> Plain:
    """The display for `show`: ``"all"``, ``"chief"`` or ``"nothing"``."""
    capable = sys.stdout.isatty() and (os.environ.get("TERM") or "dumb") not in ("dumb", "unknown")
    return LiveTable() if show != "nothing" and capable else Plain()


def _table(rows: Sequence[Row], console: Console) -> Table:
    """The table, at most half as high as the terminal; of more workers, how many do what."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in ("worker", "host", "state"):
        table.add_column(name, no_wrap=True, overflow="ellipsis")
    room = max(3, console.height // 2 - 3)
    shown = rows if len(rows) <= room else rows[: room - 1]
    for task, host, state in shown:
        words = visible(state)
        style = next((style for word, style in _STYLES.items() if words.startswith(word)), "")
        table.add_row(Text(task), Text(host), Text(words, style=style))
    if rest := rows[len(shown) :]:
        counts = Counter(visible(state).partition(" ")[0] for *_, state in rest)
        words = ", ".join(f"{count} {word}" for word, count in counts.most_common())
        table.add_row(Text(f"{len(rest)} more"), "", Text(words))
    return table

"""What a launcher shows while a job runs: its workers' lines, and on a terminal a table under them.

The table is drawn again and again below the lines that scroll, and is gone when the job has ended. Where
there is no terminal, the lines are all that is written, without an escape code.
"""

from __future__ import annotations

import contextlib
import contextvars
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...runs.metrics import epoch_line, read_metrics
from ...runs.states import State
from ...runs.terminal_text import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from ...runs.run import Run

#: A row of the table: task, host, and what it is doing.
Row = tuple[str, str, State]

_EVERY_SECONDS = 0.5
_STYLES = {"failed": "red", "done": "green", "training": "cyan", "waiting": "yellow", "stopped": "red"}


class LineDisplay:
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


class LiveTable(LineDisplay):
    """Writes lines as they come, and keeps a table of the workers below them."""

    def __init__(self) -> None:
        from rich.live import Live

        self._console = _console()
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
        """Take the table away."""
        self._live.stop()
        self._next = float("inf")


class CallbackDisplay(LineDisplay):
    """Hands everything to functions of the session that launches, such as R's: its console is no terminal.

    Parameters
    ----------
    say : callable
        Gets one line, without its end.
    glance : callable
        Gets what :func:`progress_snapshot` tells, twice a second and in the end.
    run_path : path
        The run directory.
    """

    def __init__(
        self,
        say: Callable[[str], object],
        glance: Callable[[Mapping[str, Any]], object],
        run_path: Path,
    ) -> None:
        self._say, self._glance, self._run_path = say, glance, run_path
        self._next = 0.0
        self._broken = False

    def _hand_over(self, function: Callable[[Any], object], value: object) -> None:
        if self._broken:
            return
        try:
            function(value)
        except Exception as error:
            # The job is worth more than its display.
            self._broken = True
            print(f"tfmuster: no more is shown: {error}", file=sys.stderr, flush=True)

    def line(self, text: str) -> None:
        """Hand one line over."""
        self._hand_over(self._say, text)

    def look(self, rows: Callable[[], Sequence[Row]]) -> None:
        """Tell how far the job is, if it is time."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _EVERY_SECONDS
            self._hand_over(self._glance, progress_snapshot(rows(), self._run_path))

    def close(self) -> None:
        """Tell the last epochs, and that there is no more."""
        self._hand_over(self._glance, progress_snapshot([], self._run_path))


def progress_snapshot(rows: Sequence[Row], run_path: Path) -> dict[str, Any]:
    """How far a job is, for a progress bar.

    Returns
    -------
    dict
        Of one task, the first that waits, else the first that trains, else the first: ``phase``; ``text``,
        in words, and ``text_beside_bar``, without what the bar shows; ``epoch``, ``epochs``, ``step`` and
        ``steps``, numbers or None. Of the run: ``epoch_lines``, a line for each finished epoch that no worker
        has shown itself.
    """
    states = [state for _, _, state in rows]
    waiting = [state for state in states if state.phase == "waiting"]
    training = [state for state in states if state.phase == "training"]
    state = (waiting or training or states or [State("")])[0]
    return {
        "phase": visible(state.phase),
        "text": visible(state.text),
        "text_beside_bar": visible(state.text_beside_bar),
        "epoch": state.epoch,
        "epochs": state.epochs,
        "step": state.step,
        "steps": state.steps,
        "epoch_lines": [epoch_line(values) for values in read_metrics(run_path) if not values.get("shown")],
    }


_foreign: contextvars.ContextVar[tuple[Any, Any] | None] = contextvars.ContextVar("foreign", default=None)


@contextlib.contextmanager
def shown_by(say: Callable[[str], object], glance: Callable[[Mapping[str, Any]], object]) -> Iterator[None]:
    """While the block lasts, jobs are shown by these functions; see :class:`Foreign`."""
    token = _foreign.set((say, glance))
    try:
        yield
    finally:
        _foreign.reset(token)


def display(show: str, run_path: Path) -> LineDisplay:
    """The display for `show`: ``"all"``, ``"chief"`` or ``"nothing"``."""
    functions = _foreign.get()
    if functions is not None:
        return CallbackDisplay(*functions, run_path) if show != "nothing" else LineDisplay()
    capable = sys.stdout.isatty() and (os.environ.get("TERM") or "dumb") not in ("dumb", "unknown")
    return LiveTable() if show != "nothing" and capable else LineDisplay()


def _console() -> Console:
    """The terminal, whose cursor is never hidden: a launcher that is killed could not show it again."""
    from rich.console import Console

    class WithCursor(Console):
        def show_cursor(self, show: bool = True) -> bool:
            return False

    return WithCursor(file=sys.stdout)


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
        table.add_row(Text(task), Text(host), Text(visible(state.text), style=_STYLES.get(state.phase, "")))
    if rest := rows[len(shown) :]:
        counts = Counter(visible(state.phase) for *_, state in rest)
        words = ", ".join(f"{count} {word}" for word, count in counts.most_common())
        table.add_row(Text(f"{len(rest)} more"), "", Text(words))
    return table


def shown_path(run: Run) -> str:
    """Where a run's directory is, for the screen."""
    return f"run directory {os.path.relpath(run.path)}"

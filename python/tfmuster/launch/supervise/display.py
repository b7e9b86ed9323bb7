"""Show the workers' output while a job runs and, on a terminal, a table of the workers.

The table is redrawn below the scrolling lines, and removed when the job ends. Without a terminal, only the
lines are written, without escape codes.
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
from ...system.say import say
from ...system.terminal_text import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from ...runs.run import Run

#: A row of the table: task, host, and state.
Row = tuple[str, str, State]

_EVERY_SECONDS = 0.5
_STYLES = {"failed": "red", "done": "green", "training": "cyan", "waiting": "yellow", "stopped": "red"}


class Display:
    """Shows nothing."""

    def line(self, text: str) -> None:
        """Write one line."""

    def look(self, rows: Callable[[], Sequence[Row]]) -> None:
        """Show what the workers do now. Call `rows` only if they are shown."""

    def close(self) -> None:
        """Remove everything except the lines."""


class LineDisplay(Display):
    """Writes lines as they come."""

    def line(self, text: str) -> None:
        """Write one line."""
        try:
            sys.stdout.write(f"{text}\n")
        except UnicodeEncodeError as error:
            known = text.encode(error.encoding, "backslashreplace").decode(error.encoding)
            sys.stdout.write(f"{known}\n")

    def look(self, rows: Callable[[], Sequence[Row]]) -> None:
        """Flush the output."""
        sys.stdout.flush()

    def close(self) -> None:
        """Flush the output."""
        sys.stdout.flush()


class LiveTable(Display):
    """Writes lines as they come, and shows a table of the workers below them."""

    def __init__(self) -> None:
        from rich.live import Live

        self._console = _console()
        # Only the caller's thread draws, because R accepts output from no other.
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._next = 0.0

    def line(self, text: str) -> None:
        """Write one line above the table."""
        # Write the line unchanged: not cropped to the terminal, not colored, not parsed as markup.
        self._console.print(text, markup=False, highlight=False, emoji=False, soft_wrap=True)

    def look(self, rows: Callable[[], Sequence[Row]]) -> None:
        """Redraw the table, if its interval has passed."""
        if time.monotonic() >= self._next:
            self._live.start()
            self._next = time.monotonic() + _EVERY_SECONDS
            self._live.update(_table(rows(), self._console), refresh=True)

    def close(self) -> None:
        """Remove the table."""
        self._live.stop()
        self._next = float("inf")


class CallbackDisplay(Display):
    """Passes everything to functions of the launching session, such as R's, whose console is not a terminal.

    Parameters
    ----------
    say : callable
        Called with each line, without its line end.
    glance : callable
        Called with the result of :func:`progress_snapshot`, twice a second and at the end.
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

    def line(self, text: str) -> None:
        """Pass one line on."""
        self._say(text)

    def look(self, rows: Callable[[], Sequence[Row]]) -> None:
        """Report the progress, if its interval has passed."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _EVERY_SECONDS
            self._glance(progress_snapshot(rows(), self._run_path))

    def close(self) -> None:
        """Report the last epochs and the end."""
        self._glance(progress_snapshot([], self._run_path))


class SafeDisplay(Display):
    """Switches another display off when it fails, because a display must not end the job.

    The reader of a pipe may have gone, a terminal may be closed, and a function of the caller may raise.
    """

    def __init__(self, shown: Display) -> None:
        self._shown = shown

    def _do(self, action: Callable[[Any], None], value: Any) -> None:
        try:
            action(value)
        except Exception as error:
            self._shown = Display()
            if isinstance(error, OSError):
                _discard_output()
            say(f"tfmuster: the display failed: {error}")

    def line(self, text: str) -> None:
        """Write one line."""
        self._do(self._shown.line, text)

    def look(self, rows: Callable[[], Sequence[Row]]) -> None:
        """Show what the workers do now."""
        self._do(self._shown.look, rows)

    def close(self) -> None:
        """Remove everything except the lines."""
        self._do(lambda _: self._shown.close(), None)


def _discard_output() -> None:
    """Lead standard output nowhere. What it still buffers could not be written when the process exits."""
    with contextlib.suppress(OSError, ValueError, AttributeError), open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def progress_snapshot(rows: Sequence[Row], run_path: Path) -> dict[str, Any]:
    """Return the progress of a job, for a progress bar.

    Returns
    -------
    dict
        State of one task (the first that waits, otherwise the first that trains, otherwise the first):
        ``phase``; ``text``, in words; ``text_beside_bar``, without what the bar shows; and ``epoch``,
        ``epochs``, ``step`` and ``steps``, numbers or None. State of the run: ``epoch_lines``, a line for
        each finished epoch that no worker has shown itself.
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
    """Show jobs through these functions inside the block; see :class:`CallbackDisplay`."""
    token = _foreign.set((say, glance))
    try:
        yield
    finally:
        _foreign.reset(token)


def display(show: str, run_path: Path) -> Display:
    """Make the display for `show`: ``"all"``, ``"chief"`` or ``"nothing"``."""
    if show == "nothing":
        return Display()
    if (functions := _foreign.get()) is not None:
        return SafeDisplay(CallbackDisplay(*functions, run_path))
    if sys.stdout is None:  # closed by the shell: `tfmuster launch train.py >&-`
        return Display()
    capable = sys.stdout.isatty() and (os.environ.get("TERM") or "dumb") not in ("dumb", "unknown")
    return SafeDisplay(LiveTable() if capable else LineDisplay())


def _console() -> Console:
    """Return the terminal. Its cursor is never hidden, because a killed launcher could not restore it."""
    from rich.console import Console

    class WithCursor(Console):
        def show_cursor(self, show: bool = True) -> bool:
            return False

    return WithCursor(file=sys.stdout)


def _table(rows: Sequence[Row], console: Console) -> Table:
    """Make the table, at most half as high as the terminal. It counts states if there are more workers."""
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
    """Describe the path of the run directory, for the terminal."""
    path = os.path.relpath(run.path)
    return f"run directory {run.path if path.startswith('..') else path}"

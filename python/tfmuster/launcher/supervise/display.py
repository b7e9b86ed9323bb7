"""Show the workers' output while a job runs and, on a terminal, a table of the workers.

The table is redrawn below the scrolling lines, and removed when the job ends. Without a terminal, the lines
are written without escape codes, and standard error gets signs of life.
"""

from __future__ import annotations

import contextlib
import contextvars
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...system.say import say
from ...system.terminal_text import visible
from ...system.user_code import ipython_shell
from ...tracking.live.states import State
from ...tracking.record.history import NewEpochs
from ...tracking.record.lines import epoch_line
from ...tracking.show.summary import in_words
from .worker_table import Row, table_html, time_left, worker_table

if TYPE_CHECKING:
    from rich.console import Console

    from ...tracking.run import Run

_EVERY_SECONDS = 0.5
#: How often lines of epochs are looked for, where no table is shown.
_EPOCHS_SECONDS = 1.0
#: After how many seconds without a line a sign of life is given, where no table is shown.
_SILENT_SECONDS = 60.0
#: How often it is said what the workers do that start, where no table is shown. R's display has both, too.
_START_SECONDS = 10.0
#: How many workers are named that do the same.
_MOST_NAMES = 4


class Display:
    """Shows nothing."""

    def line(self, text: str) -> None:
        """Write one line."""

    def look(self, rows: Callable[[], Sequence[Row]]) -> None:
        """Show what the workers do now. Call `rows` only if they are shown."""

    def close(self) -> None:
        """Remove everything except the lines."""


class _Lines(Display):
    """Writes lines, and one for each epoch that the chief does not print, as with ``fit(verbose=0)``."""

    def __init__(self, run_path: Path, chief: str) -> None:
        self._chief, self._epochs = chief, NewEpochs(run_path)
        self._next = 0.0

    def _write_epochs(self) -> None:
        for text in _lines_of(self._epochs):
            self.line(f"{self._chief}{visible(text)}")


def _lines_of(epochs: NewEpochs) -> list[str]:
    """Return a line for each new epoch that no worker has shown."""
    return [epoch_line(values) for values in epochs.each() if not values.get("shown")]


class _LineDisplay(_Lines):
    """Writes lines as they come. Says on stderr what workers do while they start; later, after a silence."""

    def __init__(self, run_path: Path, chief: str) -> None:
        super().__init__(run_path, chief)
        self._written = self._told = self._begun = time.monotonic()
        self._starts = True

    def line(self, text: str) -> None:
        self._written = time.monotonic()
        try:
            sys.stdout.write(f"{text}\n")
        except UnicodeEncodeError as error:
            known = text.encode(error.encoding, "backslashreplace").decode(error.encoding)
            sys.stdout.write(f"{known}\n")

    def look(self, rows: Callable[[], Sequence[Row]]) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _EPOCHS_SECONDS
            self._write_epochs()
            if self._starts or now >= self._written + _SILENT_SECONDS:
                self._tell(rows(), now)
        sys.stdout.flush()

    def _tell(self, rows: Sequence[Row], now: float) -> None:
        # One that runs and says no more may start yet.
        self._starts = any(state.starts or state.phase == "running" for *_, state in rows)
        if (text := _start_text(rows, now - self._begun)) is not None:
            due = now >= self._told + _START_SECONDS
        else:
            text, due = _sign_of_life(rows, now - self._begun), now >= self._written + _SILENT_SECONDS
        if due:
            self._written = now
            self._told += (now - self._told) // _START_SECONDS * _START_SECONDS
            sys.stdout.flush()
            say(text)

    def close(self) -> None:
        self._write_epochs()
        sys.stdout.flush()


def _foremost(rows: Sequence[Row]) -> Row:
    """Return the row of the first worker that waits, else of the first that trains, else the first row."""
    first = {"waiting": 0, "training": 1}
    return min(rows, key=lambda row: first.get(row[2].phase, 2), default=("", "", State("")))


def _sign_of_life(rows: Sequence[Row], seconds: float) -> str:
    """Say what one worker does."""
    task, _, state = _foremost(rows)
    left = time_left(state)
    about = f"{visible(task)}: {visible(state.text)}" + (f", {left} left" if left else "")
    return f"tfmuster: running for {in_words(seconds)}; {about}"


def _start_text(rows: Sequence[Row], seconds: float) -> str | None:
    """Say what the workers do that start, in a job that has run for so long; None if there are none."""
    tasks: dict[str, list[str]] = {}
    for task, _, state in rows:
        if state.seconds is not None:
            tasks.setdefault(visible(state.text_of_start), []).append(visible(task))
    doing = "; ".join(f"{_some(names)}: {text}" for text, names in tasks.items())
    return f"tfmuster: starting for {seconds:.0f} s; {doing}" if doing else None


def _some(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


class _NotebookDisplay(_LineDisplay):
    """Writes lines as they come, and shows a table of the workers above them in a notebook."""

    def __init__(self, run_path: Path, chief: str) -> None:
        super().__init__(run_path, chief)
        #: The one output of the cell that is replaced.
        self._table: Any = None
        self._next_table = 0.0

    def look(self, rows: Callable[[], Sequence[Row]]) -> None:
        if time.monotonic() >= self._next_table:
            self._next_table = time.monotonic() + _EVERY_SECONDS
            self._replace(table_html(rows(), time.monotonic() - self._begun))
        super().look(rows)

    def _tell(self, rows: Sequence[Row], now: float) -> None:
        """Say nothing: the table is shown."""

    def close(self) -> None:
        super().close()
        if self._table is not None:
            self._replace("")

    def _replace(self, text: str) -> None:
        from IPython.display import HTML, display

        if self._table is None:
            self._table = display(HTML(text), display_id=True)
        else:
            self._table.update(HTML(text))


class _LiveTable(_Lines):
    """Writes lines as they come, and shows a table of the workers below them."""

    def __init__(self, run_path: Path, chief: str) -> None:
        from rich.live import Live

        super().__init__(run_path, chief)
        self._console = _console()
        # Only the caller's thread draws, because R accepts output from no other.
        self._live = Live(console=self._console, auto_refresh=False, transient=True)

    def line(self, text: str) -> None:
        # Write the line unchanged: not cropped to the terminal, not colored, not parsed as markup.
        self._console.print(text, markup=False, highlight=False, emoji=False, soft_wrap=True)

    def look(self, rows: Callable[[], Sequence[Row]]) -> None:
        if time.monotonic() >= self._next:
            self._live.start()
            self._next = time.monotonic() + _EVERY_SECONDS
            self._write_epochs()
            size = self._console.size
            self._live.update(worker_table(rows(), width=size.width, height=size.height), refresh=True)

    def close(self) -> None:
        self._write_epochs()
        self._live.stop()
        self._next = float("inf")


class _CallbackDisplay(Display):
    """Passes everything to functions of the launching session, such as R's, whose console is not a terminal.

    `say` gets each line, without its line end. `glance` gets the result of :func:`progress_snapshot`, twice a
    second and at the end.
    """

    def __init__(
        self, say: Callable[[str], object], glance: Callable[[Mapping[str, object]], object], run_path: Path
    ) -> None:
        self._say, self._glance, self._epochs = say, glance, NewEpochs(run_path)
        self._next = 0.0
        self._begun = time.monotonic()

    def line(self, text: str) -> None:
        self._say(text)

    def look(self, rows: Callable[[], Sequence[Row]]) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _EVERY_SECONDS
            self._report(rows())

    def close(self) -> None:
        self._report([])

    def _report(self, rows: Sequence[Row]) -> None:
        self._glance(progress_snapshot(rows, _lines_of(self._epochs), time.monotonic() - self._begun))


class _SafeDisplay(Display):
    """Switches another display off when it fails, because a display must not end the job."""

    def __init__(self, shown: Display) -> None:
        self._shown = shown

    def _do(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:
            self._shown = Display()
            if isinstance(error, OSError):
                _discard_output()
            closed = "nobody reads the output any more; the job continues, and its run keeps all of it"
            failed = f"the display failed: {error}"
            say(f"tfmuster: {closed if isinstance(error, BrokenPipeError) else failed}")

    def line(self, text: str) -> None:
        self._do(lambda: self._shown.line(text))

    def look(self, rows: Callable[[], Sequence[Row]]) -> None:
        self._do(lambda: self._shown.look(rows))

    def close(self) -> None:
        self._do(self._shown.close)


def _discard_output() -> None:
    """Lead standard output nowhere. What it still buffers could not be written when the process exits."""
    with contextlib.suppress(OSError, ValueError, AttributeError), open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def progress_snapshot(rows: Sequence[Row], epoch_lines: Sequence[str], seconds: float) -> dict[str, Any]:
    """Return the progress of a job that has run for so many seconds, for a progress bar.

    ``phase``, ``text``, ``text_beside_bar`` (without what the bar shows), ``epoch``, ``epochs``, ``step`` and
    ``steps`` (numbers or None) are of the first task that waits, else trains, else the first. ``epoch_lines``
    are those of epochs that have finished since the last call. Two are for a display without a bar:
    ``start`` says what the workers do that start, and is None without any; ``sign_of_life`` is for one that
    is silent, and None without workers.
    """
    _, _, state = _foremost(rows)
    return {
        "phase": visible(state.phase),
        "text": visible(state.text),
        "text_beside_bar": visible(state.text_beside_bar),
        "epoch": state.epoch,
        "epochs": state.epochs,
        "step": state.step,
        "steps": state.steps,
        "epoch_lines": list(epoch_lines),
        "start": _start_text(rows, seconds),
        "sign_of_life": _sign_of_life(rows, seconds) if rows else None,
    }


_foreign: contextvars.ContextVar[tuple[Any, Any] | None] = contextvars.ContextVar("foreign", default=None)


@contextlib.contextmanager
def shown_by(
    say: Callable[[str], object], glance: Callable[[Mapping[str, object]], object]
) -> Iterator[None]:
    """Show jobs through these functions inside the block; see :class:`_CallbackDisplay`."""
    token = _foreign.set((say, glance))
    try:
        yield
    finally:
        _foreign.reset(token)


def display(show: str, run_path: Path, chief: str = "") -> Display:
    """Make the display for `show`; `chief` is what stands before a line of the chief."""
    if show == "nothing":
        return Display()
    if (functions := _foreign.get()) is not None:
        return _SafeDisplay(_CallbackDisplay(*functions, run_path))
    if sys.stdout is None:  # closed by the shell: `tfmuster launch train.py >&-`
        return Display()
    capable = sys.stdout.isatty() and (os.environ.get("TERM") or "dumb") not in ("dumb", "unknown")
    if capable:
        return _SafeDisplay(_LiveTable(run_path, chief))
    kind = _NotebookDisplay if hasattr(ipython_shell(), "kernel") else _LineDisplay
    return _SafeDisplay(kind(run_path, chief))


def _console() -> Console:
    """Return the terminal. Its cursor is never hidden, because a killed launcher could not restore it."""
    from rich.console import Console

    class WithCursor(Console):
        def show_cursor(self, show: bool = True) -> bool:
            return False

    return WithCursor(file=sys.stdout)


def shown_path(run: Run) -> str:
    """Describe the path of the run directory, for the terminal."""
    path = os.path.relpath(run.path)
    return f"run directory {run.path if path.startswith('..') else path}"

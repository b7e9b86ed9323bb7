"""The table of a job's workers, as a terminal or a notebook shows it while the job runs."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ...system.terminal_text import visible
from ...tracking.live.states import State
from ...tracking.show.summary import in_words

if TYPE_CHECKING:
    from rich.table import Table

#: A row of the table: task, host, and state.
Row = tuple[str, str, State]

_STYLES = {"failed": "red", "done": "green", "training": "cyan", "waiting": "yellow", "stopped": "red"}
#: Narrowest terminal with a column for the host, if all tasks have the same.
_WITH_HOST = 90
#: How many characters of a host's name and of a state are never cut.
_HOST, _STATE = 16, 12
#: Width for which the texts of a notebook are made, in characters.
_NOTEBOOK_WIDTH = 120


def time_left(state: State) -> str:
    """Return how long a training will still take at its present speed; "" if that is not known."""
    speed, steps = state.steps_per_second, state.steps
    if state.phase != "training" or not (speed and steps and state.epochs and state.epoch):
        return ""
    left = (state.epochs - state.epoch) * steps + steps - (state.step or 0)
    return in_words(max(0.0, left / speed))


def cells(rows: Sequence[Row], width: int) -> tuple[list[str], list[list[str]]]:
    """Return the names of the columns and the texts of the rows for a terminal of this width.

    What no task has gets no column, and the host none on a narrow terminal if all tasks have the same. The
    state is last, because its text may be cut.
    """
    columns: list[tuple[str, Callable[[Row], str], bool]] = [
        ("worker", lambda row: visible(row[0]), True),
        ("host", lambda row: visible(row[1]), width >= _WITH_HOST or len({host for _, host, _ in rows}) > 1),
        ("time left", lambda row: time_left(row[2]), False),
        ("waits for", lambda row: visible(_wait(row[2])), False),
        ("state", lambda row: visible(_short(row[2], width)), True),
    ]
    shown = [(name, [text(row) for row in rows], always) for name, text, always in columns]
    kept = [(name, texts) for name, texts, always in shown if always or (name != "host" and any(texts))]
    return [name for name, _ in kept], [list(texts) for texts in zip(*(t for _, t in kept), strict=True)]


def _wait(state: State) -> str:
    return f"{state.wait_share:.0%} {state.awaited}" if state.awaited else ""


def _short(state: State, width: int) -> str:
    """Describe the state without what other columns say; on a narrow terminal, without "training"."""
    text = replace(state, waits_for="").text
    return text.removeprefix("training  ") if width < _WITH_HOST else text


def worker_table(rows: Sequence[Row], *, width: int, height: int) -> Table:
    """Make the table, at most half as high as the terminal. It counts states if there are more workers."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    room = max(3, height // 2 - 3)
    shown = rows if len(rows) <= room else rows[: room - 1]
    names, texts = cells(shown, width)
    rest = rows[len(shown) :]
    more = f"{len(rest)} more" if rest else ""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    longest = [
        max(len(name), len(more) if column == 0 else 0, *(len(row[column]) for row in texts))
        for column, name in enumerate(names)
    ]
    # Only the state is cut if there is no room, and a very long name of a host.
    if "host" in names:
        longest[1] = min(longest[1], max(_HOST, width - sum(longest) + longest[1]))
    longest[-1] = max(_STATE, min(longest[-1], width - sum(longest[:-1]) - 3 * len(names)))
    for name, room in zip(names, longest, strict=True):
        table.add_column(name, no_wrap=True, overflow="ellipsis", width=room)
    for row, (_, _, state) in zip(texts, shown, strict=True):
        table.add_row(*map(Text, row[:-1]), Text(row[-1], style=_STYLES.get(state.phase, "")))
    if rest:
        counts = Counter(visible(state.phase) for *_, state in rest)
        words = ", ".join(f"{count} {word}" for word, count in counts.most_common())
        table.add_row(Text(more), *([""] * (len(names) - 2)), Text(words))
    return table


def table_html(rows: Sequence[Row], seconds: float) -> str:
    """Return the table as HTML, in which no text of a program is markup."""
    names, texts = cells(rows, _NOTEBOOK_WIDTH)
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(text)}</td>" for text in row) + "</tr>" for row in texts
    )
    bars = [
        f'<progress max="{state.steps * state.epochs}" '
        f'value="{(state.epoch - 1) * state.steps + (state.step or 0)}"></progress>'
        for _, _, state in rows
        if state.epoch and state.epochs and state.steps
    ][:1]
    return f"<table><tr>{head}</tr>{body}</table>{''.join(bars)} {seconds:.0f} s"

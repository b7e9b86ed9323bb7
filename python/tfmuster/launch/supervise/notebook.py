"""A table of the workers in a notebook of Jupyter, which is no terminal but can replace what it shows."""

from __future__ import annotations

import html
import time
from collections.abc import Sequence
from typing import Any

from ...system.ipython import ipython_shell
from .worker_table import Row, cells

#: Width for which the texts are made, in characters.
_WIDTH = 120


def in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook."""
    return hasattr(ipython_shell(), "kernel")


class NotebookTable:
    """One output of a cell, which is replaced twice a second."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._begun = time.monotonic()

    def show(self, rows: Sequence[Row]) -> None:
        """Show the workers."""
        self._replace(table_html(rows, time.monotonic() - self._begun))

    def close(self) -> None:
        """Remove the table."""
        if self._handle is not None:
            self._replace("")

    def _replace(self, text: str) -> None:
        from IPython.display import HTML, display

        if self._handle is None:
            self._handle = display(HTML(text), display_id=True)
        else:
            self._handle.update(HTML(text))


def table_html(rows: Sequence[Row], seconds: float) -> str:
    """Return the table as HTML, in which no text of a program is markup."""
    names, texts = cells(rows, _WIDTH)
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

"""Tell whoever listens what was decided for a program, once for each decision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Listener = Callable[..., None]
_listeners: list[Listener] = []
_told: set[tuple[str, str]] = set()


def listen(listener: Listener) -> None:
    """Call ``listener(about, text, **fields)`` for every note from now on."""
    if listener not in _listeners:
        _listeners.append(listener)


def tell(about: str, text: str, **fields: Any) -> None:
    """Tell a note, unless the same was told before."""
    if (about, text) not in _told:
        _told.add((about, text))
        for listener in _listeners:
            listener(about, text, **fields)

"""Say something to the user, on standard error."""

from __future__ import annotations

import contextlib
import contextvars
import sys
from collections.abc import Callable, Iterator

from .terminal_text import safe_text

_listener: contextvars.ContextVar[Callable[[str], object] | None] = contextvars.ContextVar(
    "listener", default=None
)


@contextlib.contextmanager
def heard_by(listener: Callable[[str], object]) -> Iterator[None]:
    """Pass what this thread says inside the block to a function, such as R's, whose console is not stderr."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def has_listener() -> bool:
    """Return whether a function hears what this thread says."""
    return _listener.get() is not None


def say(text: str) -> None:
    """Print text to stderr, if anybody reads it: a pipe or a terminal that was closed must not end a job."""
    if (listener := _listener.get()) is not None:
        for line in safe_text(text).splitlines():
            listener(line)
        return
    # It is None if the shell has closed it, and then print() does nothing.
    with contextlib.suppress(OSError, ValueError):
        # One write: a worker writes without a buffer, and the line of another thread must not come between.
        print(f"{safe_text(text)}\n", end="", file=sys.stderr, flush=True)

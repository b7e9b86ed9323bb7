"""Say something to the user, on standard error."""

from __future__ import annotations

import contextlib
import sys

from .terminal_text import safe_text


def say(text: str) -> None:
    """Print text to stderr, if anybody reads it: a pipe or a terminal that was closed must not end a job."""
    # It is None if the shell has closed it, and then print() does nothing.
    with contextlib.suppress(OSError, ValueError):
        print(safe_text(text), file=sys.stderr, flush=True)

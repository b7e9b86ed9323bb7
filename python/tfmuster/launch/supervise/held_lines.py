"""Hold back the traceback of a worker that fails, because the report of the failure shows it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from ...runs.failure import without_traceback
from ...runs.traceback_text import HEADER

#: How long a worker that has printed a traceback may take to end, in seconds. Otherwise it continues.
_SECONDS = 2.0


class HeldLines:
    """The lines of one worker from a traceback on, which are shown unless the worker has failed with it."""

    def __init__(self) -> None:
        self._held: list[str] = []
        self._since = 0.0

    def pass_on(self, lines: Sequence[str]) -> list[str]:
        """Return those of the lines that can be shown now."""
        if not self._held:
            begin = next((at for at, line in enumerate(lines) if line == HEADER), len(lines))
            lines, held = lines[:begin], lines[begin:]
            self._since = time.monotonic()
        else:
            lines, held = [], lines
        self._held += held
        return list(lines)

    def overdue(self, note: Mapping[str, Any]) -> list[str]:
        """Return lines that have been held too long for a worker that fails, unless it has left a note."""
        if not self._held or note or time.monotonic() < self._since + _SECONDS:
            return []
        return self._release()

    def end(self, note: Mapping[str, Any]) -> list[str]:
        """Return what is not part of the error in the worker's note, when the worker has ended."""
        held = self._release()
        trace, error = note.get("traceback"), note.get("error")
        if not (held and isinstance(trace, str) and trace and isinstance(error, str)):
            return held
        return without_traceback(trace, error, held)

    def _release(self) -> list[str]:
        held, self._held = self._held, []
        return held

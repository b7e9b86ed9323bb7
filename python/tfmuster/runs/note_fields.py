"""Take from a note what a failure may have: any program, also of another machine, may have written it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from ..system.terminal_text import safe_text


def known_hints(value: Any) -> tuple[dict[str, Any], ...]:
    """Return the hints that a note or a file has; what can't be one is left out."""
    return tuple(
        {"option": hint["option"], "value": hint.get("value")}
        for hint in (value if isinstance(value, list | tuple) else ())
        if isinstance(hint, Mapping) and _is_name(hint.get("option")) and _is_plain(hint.get("value"))
    )


def known_classes(value: Any) -> tuple[str, ...]:
    """Return the classes that a note or a file has, safe to show."""
    names = value if isinstance(value, list | tuple) else ()
    return tuple(safe_text(name) for name in names if isinstance(name, str))


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and value.isidentifier()


def _is_plain(value: Any) -> bool:
    """Return whether a value is what an option may have, and safe to show."""
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, int | float) or (isinstance(value, str) and value.isprintable())


def is_time(value: Any) -> bool:
    """Return whether a value is a time in seconds since the epoch, of which there is a date."""
    try:
        return isinstance(value, int | float) and bool(datetime.fromtimestamp(value, timezone.utc))
    except (ValueError, OverflowError, OSError):
        return False

"""Count the processor's cores that this process may use."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """Return how many cores this process may use: those that it is bound to, where the system tells."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1

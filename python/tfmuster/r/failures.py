"""Describe the failure of a worker for R, whose own condition says what the function has failed with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..tracking.failure.failure import Failure
from ..tracking.values.rds import NotDataError, check_rds_bytes


def failure_texts(error: Mapping[str, Any], *, has_cause: bool, shown: bool) -> dict[str, Any]:
    """Return ``message``, ``found`` and ``fix`` of a worker's failure.

    Parameters
    ----------
    error : mapping
        The fields of the :class:`tfmuster.errors.WorkerError`.
    has_cause : bool
        The worker's own condition is the cause that R shows below, with its backtrace.
    shown : bool
        The session has shown the worker's output.
    """
    failure = Failure.from_dict(error)
    lines = [] if shown else failure.lines_before()
    said = ["Its last lines:", *(f"  {line}" for line in lines)] if lines else []
    found = said if has_cause else failure.details(shown=shown)
    fix = [f"Full output: {failure.log}", failure.advice()]
    return {
        "message": failure.ending() if has_cause else failure.headline(),
        "found": "\n".join(found).strip("\n") or None,
        "fix": "\n".join(filter(None, fix)),
    }


def condition_bytes(text: str | None) -> bytearray | None:
    """Return what R reads of the condition that a script has failed with.

    Parameters
    ----------
    text : str or None
        An uncompressed RDS file in hexadecimal, from a worker's note; another machine may have sent any text.

    Returns
    -------
    bytearray or None
        None if there is none, or if it holds more than data.
    """
    try:
        content = bytearray.fromhex(text or "")
        check_rds_bytes(bytes(content))
    except (ValueError, NotDataError):
        return None
    return content

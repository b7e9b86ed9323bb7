"""How a run directory ends: with its state as the last word, so that who has waited for it may remove it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .runs import Run, write_json
from .tfruns import write_tfruns


def end_run(run: Run, state: str, error: Mapping[str, Any] | None = None, **changes: Any) -> None:
    """Note how a run has ended. Only its launcher does, or whoever finds that it has none any more.

    Parameters
    ----------
    run : Run
        Its directory.
    state : str
        The state in which it stays.
    error : mapping, optional
        The first failure, for ``error.json``.
    **changes
        More entries of ``status.json``.
    """
    if error is not None:
        write_json(run.path / "error.json", error)
    write_tfruns(run, state)
    run.set_status(state=state, **changes)

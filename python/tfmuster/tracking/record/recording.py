"""Write the files of a run: for its launcher, and for a session that finds the launcher gone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .hidden_values import without_secrets
from .layout import CALL, RESUME, STOP_COMMAND, read_json, utc_now, write_json
from .metrics import history_of
from .records import read_error, read_info
from .tfruns import write_tfruns


def record_info(run_dir: Path, about: Mapping[str, Any]) -> None:
    """Replace ``run.json``, which only this user can read.

    Values in the command that look like secrets are not written.
    """
    shown = {**about, "command": without_secrets(about.get("command", ()))}
    write_json(run_dir / "run.json", shown, mode=0o600)


def record_status(run_dir: Path, **changes: Any) -> None:
    """Change entries of ``status.json``."""
    status = {**read_json(run_dir / "status.json"), **changes, "updated": utc_now()}
    write_json(run_dir / "status.json", status)


def record_stop_command(run_dir: Path, command: Sequence[str]) -> None:
    """Record the command that ends this run's batch job, on submission and in the job itself."""
    write_json(run_dir / STOP_COMMAND, {"command": list(command)})


def record_end(run_dir: Path, state: str, error: Mapping[str, Any] | None = None, **changes: Any) -> None:
    """Record how a run ended.

    Parameters
    ----------
    run_dir : Path
        The run directory.
    state : str
        The final state.
    error : mapping, optional
        The first failure, for ``error.json``.
    **changes
        More entries of ``status.json``.
    """
    if error is not None:
        write_json(run_dir / "error.json", error)
    write_tfruns(
        run_dir / "tfruns.d",
        state=state,
        info=read_info(run_dir),
        history=history_of(run_dir),
        error=read_error(run_dir) or None,
    )
    if state == "done":
        # What a function was given may be large and private; its values stay.
        for path in (*(run_dir / CALL).glob("call.*"), run_dir / RESUME):
            path.unlink(missing_ok=True)
    # The state is written last, so that a session that waits for it finds everything else.
    record_status(run_dir, state=state, **changes)

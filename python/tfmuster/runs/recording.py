"""Write the files of a run: for its launcher, and for a session that finds the launcher gone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .hidden_values import without_secrets
from .layout import CALL, RESUME, STOP_COMMAND, read_json, utc_now, write_json
from .tfruns import write_tfruns

if TYPE_CHECKING:
    from .run import Run


def record_info(run: Run, about: Mapping[str, Any]) -> None:
    """Replace ``run.json``, which only this user can read.

    Values in the command that look like secrets are not written.
    """
    shown = {**about, "command": without_secrets(about.get("command", ()))}
    write_json(run.path / "run.json", shown, mode=0o600)


def record_status(run: Run, **changes: Any) -> None:
    """Change entries of ``status.json``."""
    status = {**read_json(run.path / "status.json"), **changes, "updated": utc_now()}
    write_json(run.path / "status.json", status)


def record_stop_command(run: Run, command: Sequence[str]) -> None:
    """Record the command that ends this run's batch job, on submission and in the job itself."""
    write_json(run.path / STOP_COMMAND, {"command": list(command)})


def record_end(run: Run, state: str, error: Mapping[str, Any] | None = None, **changes: Any) -> None:
    """Record how a run ended.

    Parameters
    ----------
    run : Run
        The run.
    state : str
        The final state.
    error : mapping, optional
        The first failure, for ``error.json``.
    **changes
        More entries of ``status.json``.
    """
    if error is not None:
        write_json(run.path / "error.json", error)
    write_tfruns(
        run.path / "tfruns.d", state=state, info=run.info(), history=run.history(), error=run.error()
    )
    if state == "done":
        # What a function was given may be large and private; its values stay.
        for path in (*(run.path / CALL).glob("call.*"), run.path / RESUME):
            path.unlink(missing_ok=True)
    # The state is written last, so that a session that waits for it finds everything else.
    record_status(run, state=state, **changes)

"""End a run from any session: at once, or after its training has been saved; and say how."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ...environment import grace
from ...errors import LaunchError, TfmusterError
from ...words import Code, Words, r_text
from ..live.status import launcher_process, status_of, wait_for_end
from ..record.layout import UNFINISHED
from ..record.ownership import check_owner
from ..record.records import read_info
from .batch_job import end_batch_job, stop_command
from .preemption import can_save, note_ending

#: A launcher looks for this file in its run directory. If it is not empty, the training is to be saved.
_STOP: Final = "stop"
_SAVE: Final = "save"


def stop_run(run_dir: Path, timeout: float, *, save: bool) -> dict[str, Any]:
    """End a run and all its processes; see :meth:`.run.Run.stop`."""
    # These files name the processes that are ended.
    check_owner(run_dir, run_dir / "run.json", run_dir / "status.json")
    status, info = status_of(run_dir), read_info(run_dir)
    if status["state"] == "lost":
        end_left_over(info, status)
    if status["state"] not in UNFINISHED:
        return status
    if save:
        return _save(run_dir, timeout)
    launcher = launcher_process(info)
    if launcher is None:
        host = info.get("host")
        if host != socket.gethostname():
            command = stop_command(run_dir)
            if not command:
                message = f"The run {run_dir.name} can be stopped on its own host only."
                raise LaunchError(message, found=f"host {host}", run=run_dir.name)
            end_batch_job(run_dir, command)
        return status_of(run_dir)
    if info.get("ends_on_sigterm"):
        # Else the launcher would save first.
        note_ending(run_dir)
        with contextlib.suppress(Exception):
            launcher.terminate()
    else:
        _stop_path(run_dir).touch()
    return wait_for_end(run_dir, timeout)


def end_left_over(info: Mapping[str, Any], status: Mapping[str, Any]) -> None:
    """End the processes that a launcher which was killed has left on this machine.

    Parameters
    ----------
    info, status : mapping
        The contents of ``run.json`` and ``status.json``. Check their owner first.
    """
    if not info.get("job"):
        return
    import psutil

    from ...system.processes import birth, end_job, note_session

    for task in status["tasks"].values():
        pid, host = task.get("pid"), task.get("host")
        # A new title hides a process from a search by its environment. Each task is the first of its session.
        with contextlib.suppress(psutil.Error, TypeError, ValueError):
            if host == socket.gethostname() and birth(psutil.Process(pid)) == task.get("birth"):
                note_session(info["job"], pid, task["birth"])
    end_job(info["job"])


def _save(run_dir: Path, timeout: float) -> dict[str, Any]:
    if not can_save(run_dir):
        raise TfmusterError(
            f"The run {run_dir.name} can't be saved now.",
            found=Words("it is in no training with {}()", Code("checkpoint_callback", "callback_checkpoint")),
            fix=f"wait until fit() runs, or end it without saving: {stop_text(run_dir.name)}",
            run=run_dir.name,
        )
    _stop_path(run_dir).write_text(_SAVE)
    return wait_for_end(run_dir, timeout + grace(read_info(run_dir).get("grace")))


def asked_to_save(run_dir: Path) -> bool:
    """Return whether another session has asked the launcher, which calls this, to save the run and end it.

    Raises
    ------
    TfmusterError
        Another session has asked to end the run at once.
    """
    path = _stop_path(run_dir)
    if not path.exists():
        return False
    save = path.read_text() == _SAVE
    path.unlink(missing_ok=True)
    if not save:
        raise TfmusterError(
            f"The run {run_dir.name} was stopped.", found="asked for by another session", run=run_dir.name
        )
    return True


def _stop_path(run_dir: Path) -> Path:
    return run_dir / _STOP


def stop_text(run: str | os.PathLike[str], *, save: bool = False) -> str:
    """Return what ends a run, as its user writes it; with `save`, after a checkpoint."""
    return _text(run, "stop", *(("save=True", ", save = TRUE", "--save") if save else ()))


def resume_text(run: str | os.PathLike[str]) -> str:
    """Return what resumes a run, as its user writes it."""
    return _text(run, "resume")


def _text(run: str | os.PathLike[str], verb: str, python: str = "", r: str = "", shell: str = "") -> str:
    name = os.fspath(run)
    command = " ".join(filter(None, ("tfmuster", "runs", verb, shell, name)))
    return str(Code(f"{verb}({python}) of the run {name}", f"run_{verb}({r_text(name)}{r})", command))

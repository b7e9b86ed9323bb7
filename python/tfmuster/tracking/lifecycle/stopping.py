"""End a run from any session: at once, or after its training has been saved; and say how.

The launcher of a batch job may be on another machine, where only the batch system can end it. The command for
that is read from the run directory. So it is run only if it is one that tfmuster writes: a batch system's
command, and the identifier of a job.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ...environment import grace
from ...errors import LaunchError, TfmusterError
from ...system.ask import NoAnswerError, ask
from ...system.regular_files import read_regular
from ...system.replace import replacing_file
from ...words import Code, Words, r_text
from ..live.status import launcher_process, status_of, wait_for_end
from ..record.layout import STOP_COMMAND, UNFINISHED, read_json
from ..record.ownership import check_owner
from ..record.recording import read_info, record_end
from .preemption import can_save, note_ending

#: A launcher looks for this file in its run directory. If it is not empty, the training is to be saved.
_STOP: Final = "stop"
_SAVE: Final = b"save"

#: How long a batch system may take to accept the request to end a job, in seconds.
_ANSWER_SECONDS: Final = 30.0
#: How long it may take to end the job's processes, and how long a shared file system may take to show what
#: another node has written, in seconds.
_BATCH_SECONDS, _SHARED_SECONDS = 60.0, 5.0
#: The commands that end a job, with what may follow: the number of the job, of an array's element in it, and
#: for PBS the server's name. PBS and SGE have a command of the same name; SGE names an element by ``-t``.
STOP_COMMANDS: Final = {
    "scancel": re.compile(r"[0-9]+(_[0-9]+)?", re.ASCII),
    "qdel": re.compile(r"[0-9]+(\[[0-9]*\])?(\.[A-Za-z0-9][A-Za-z0-9.-]*)?|[0-9]+ -t [0-9]+", re.ASCII),
    "bkill": re.compile(r"[0-9]+(\[[0-9]+\])?", re.ASCII),
}


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
            _end_batch_job(run_dir, command)
        return status_of(run_dir)
    if info.get("ends_on_sigterm"):
        # Else the launcher would save first.
        note_ending(run_dir)
        with contextlib.suppress(Exception):
            launcher.terminate()
    else:
        (run_dir / _STOP).touch()
    return wait_for_end(run_dir, timeout)


def end_left_over(info: Mapping[str, Any], status: Mapping[str, Any]) -> None:
    """End the processes that a launcher which was killed has left on this machine.

    Check the owner of ``run.json`` and ``status.json``, whose contents these are, first.
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


def stop_command(run_dir: Path) -> list[str]:
    """Return the command that ends a run's batch job, which must be this user's; empty if it has none."""
    path = run_dir / STOP_COMMAND
    check_owner(path)
    words = read_json(path).get("command")
    if not words:
        return []
    command = list(map(str, words)) if isinstance(words, list) else [str(words)]
    number = STOP_COMMANDS.get(command[0])
    if number is None or not number.fullmatch(" ".join(command[1:])):
        raise LaunchError(
            "The command that ends a batch job must be scancel, qdel or bkill with the number of a job.",
            found=f"{shlex.join(command)[:200]} in {path}",
            fix="End the job by its batch system.",
            reason="stop-command",
        )
    return command


def _end_batch_job(run_dir: Path, command: Sequence[str]) -> None:
    """Ask the batch system to end a run's job, and wait for its end."""
    has_begun = (run_dir / "logs").is_dir()
    try:
        answer = ask(*command, seconds=_ANSWER_SECONDS)
        refusal = None if answer.code == 0 else answer.first_line
    except NoAnswerError as error:
        refusal = str(error)
    # A job that has not started has no launcher that could record its end.
    state = wait_for_end(run_dir, _BATCH_SECONDS if has_begun and not refusal else _SHARED_SECONDS)["state"]
    if state not in UNFINISHED:
        return
    if refusal:
        raise LaunchError(
            f"The batch job of the run {run_dir.name} must be ended by its batch system.",
            found=refusal,
            fix=f"Run this on a machine of the cluster: {shlex.join(command)}",
            run=run_dir.name,
        )
    record_end(run_dir, "interrupted")


def _save(run_dir: Path, timeout: float) -> dict[str, Any]:
    if not can_save(run_dir):
        raise TfmusterError(
            f"The run {run_dir.name} can't be saved now.",
            found=Words("it is in no training with {}()", Code("checkpoint_callback", "callback_checkpoint")),
            fix=f"wait until fit() runs, or end it without saving: {stop_text(run_dir.name)}",
            run=run_dir.name,
        )
    # A launcher that finds it empty, because it looks while the file is written, would end the run at once.
    with replacing_file(run_dir / _STOP) as file:
        file.write(_SAVE)
    return wait_for_end(run_dir, timeout + grace(read_info(run_dir).get("grace")))


def asked_to_save(run_dir: Path) -> bool:
    """Return whether another session has asked the launcher, which calls this, to save the run and end it.

    Raises TfmusterError if another session has asked to end the run at once.
    """
    path = run_dir / _STOP
    try:
        save = read_regular(path, 64) == _SAVE
    except OSError:
        return False
    path.unlink(missing_ok=True)
    if not save:
        raise TfmusterError(
            f"The run {run_dir.name} was stopped.", found="asked for by another session", run=run_dir.name
        )
    return True


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

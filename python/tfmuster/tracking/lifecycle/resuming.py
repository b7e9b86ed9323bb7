"""Restart a run that has ended before its program had finished, in its own run directory.

The program resumes by itself: :func:`tfmuster.checkpoint_callback` finds its checkpoints there.
``resume.json`` has what starts the run again; only its owner can read it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from ...cluster.resolvers import batch_job
from ...environment import PREFIX, TOKEN_VARIABLE
from ...errors import LaunchError, parts_of
from ...options.hints import Hint
from ...system.interpreter import run_module, with_tfmuster_on_path
from ...system.terminal_text import decoded, output_encoding
from ...words import Words
from ..live.status import status_of
from ..record.hidden_values import HIDDEN, without_secret, without_secrets
from ..record.layout import PREEMPTED, RESUME, UNFINISHED, holds_run, read_json, utc_now, write_json
from ..record.log_text import log_paths, separate
from ..record.ownership import check_owner
from ..record.recording import read_info
from .stopping import end_left_over, stop_text

#: States of a run that can be started again.
RESUMABLE: Final = (PREEMPTED, "interrupted", "failed", "lost")


class Relaunch(NamedTuple):
    """How to launch a run once more: arguments of ``tfmuster launch``, working directory, and environment."""

    arguments: list[str]
    directory: str
    env: dict[str, str]


def record_launch(
    run_dir: Path, options: Sequence[str], command: Sequence[str], env: Mapping[str, str]
) -> None:
    """Record how a run was launched. Values that look like secrets are not kept.

    `options` are those of ``tfmuster launch``, and `env` is the job's own. The user's settings of tfmuster
    are recorded, too.
    """
    settings = {name: value for name, value in os.environ.items() if name.startswith(PREFIX)}
    settings.pop(TOKEN_VARIABLE, None)
    record = {
        "options": without_secrets(options),
        "command": without_secrets(command),
        "directory": os.getcwd(),
        "env": {name: without_secret(name, value) for name, value in {**settings, **env}.items()},
    }
    write_json(run_dir / RESUME, record, mode=0o600)


def relaunch_of(run_dir: Path) -> Relaunch:
    """Return how to resume a run.

    Raises TfmusterError if the run belongs to another user (reason ``foreign``). Raises LaunchError (reason
    ``resume``) if it has not ended, its program has finished, or its launch can't be repeated from here.
    """
    check_owner(run_dir, run_dir / "run.json", run_dir / "status.json", run_dir / RESUME)
    state = status_of(run_dir)["state"]
    if state not in RESUMABLE:
        goes_on = state in UNFINISHED
        raise LaunchError(
            "This run can't be resumed.",
            found=f"{run_dir.name} is {state}" if goes_on else f"the program of {run_dir.name} has finished",
            fix=f"Stop it first: {stop_text(run_dir.name, save=True)}" if goes_on else "Start a new run.",
            reason="resume",
        )
    record = read_json(run_dir / RESUME)
    words = [*record.get("options", ()), *record.get("command", ()), *record.get("env", {}).values()]
    if not record or any(HIDDEN in word for word in words):
        raise LaunchError(
            "This run can't be resumed by its name.",
            found="its command line or its environment has a secret, which is not kept"
            if record
            else "another program has started its workers",
            fix=Words(
                "Launch it as before, with {}: it resumes from its newest checkpoint.",
                Hint("run_dir", str(run_dir)),
            ),
            reason="resume",
        )
    return Relaunch([*record["options"], "--", *record["command"]], record["directory"], record["env"])


def resumed_info(run_dir: str | os.PathLike[str] | None) -> dict[str, Any]:
    """Return what the unfinished run in a directory has recorded, its seeds included; empty without one."""
    if run_dir is None or not holds_run(path := Path(run_dir)) or status_of(path)["state"] not in RESUMABLE:
        return {}
    return {"hash_seed": "0", **read_info(path)}


@contextlib.contextmanager
def resuming(run_dir: Path, command: Sequence[str]) -> Iterator[bool]:
    """Yield whether this command resumes the run in a directory, which then is prepared for that.

    Inside the block no other launcher can resume it.
    """
    record = run_dir / "run.json"
    if not holds_run(run_dir):
        yield False
        return
    with record.open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        if not resumes(run_dir, command):
            yield False
            return
        check_owner(run_dir, record, run_dir / "status.json")
        _prepare(run_dir)
        yield True


def resumes(run_dir: Path, command: Sequence[str]) -> bool:
    """Return whether a launch of this command in the directory of a run resumes it."""
    same = read_info(run_dir).get("command") == without_secrets(command)
    return same and (status_of(run_dir)["state"] in RESUMABLE or _is_of_this_job(run_dir))


def _is_of_this_job(run_dir: Path) -> bool:
    """Return whether a run's launcher was in this batch job, has gone, and the job's system restarted it."""
    batch, info = batch_job(), read_info(run_dir)
    same = batch is not None and info.get(f"{batch.system}_job") == batch.number
    return same and status_of(run_dir)["state"] in UNFINISHED and info.get("pid") != os.getpid()


def _prepare(run_dir: Path) -> None:
    """End what is left of the earlier start, and mark its logs."""
    status = status_of(run_dir)
    if status["state"] == "lost":
        end_left_over(read_info(run_dir), status)
    for path in log_paths(run_dir).values():
        separate(path, f"resumed, {utc_now()}, after: {status['state']}")
    # A run that was ended while it waited for a batch system has none yet.
    (run_dir / "logs").mkdir(exist_ok=True)
    for path in (*(run_dir / "logs").glob("*.json"), run_dir / "error.json"):
        path.unlink(missing_ok=True)


def resume_run(run_dir: Path) -> None:
    """Restart a run in the background; see :meth:`.run.Run.resume`."""
    relaunch_of(run_dir)
    done = subprocess.run(
        [*run_module("tfmuster"), "runs", "resume", "--detach", str(run_dir)],
        env=with_tfmuster_on_path(os.environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        text = decoded(done.stderr, output_encoding(os.environ)).strip() or f"exit code {done.returncode}"
        message = f"The run {run_dir.name} could not be resumed."
        raise LaunchError(**(parts_of(text) or {"message": message, "found": text}), reason="resume")

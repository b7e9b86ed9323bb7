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
from typing import Final, NamedTuple

from ..cluster.resolvers import batch_job
from ..environment import PREFIX, TOKEN_VARIABLE
from ..errors import LaunchError, parts_of
from ..options.hints import Hint
from ..system.interpreter import run_module, with_tfmuster_on_path
from ..system.output_encoding import decoded, output_encoding
from ..words import Words
from .hidden_values import HIDDEN, without_secret, without_secrets
from .layout import PREEMPTED, RESUME, UNFINISHED, holds_run, read_json, utc_now, write_json
from .next_steps import stop_text
from .ownership import check_owner
from .run import Run
from .stopping import end_left_over

#: States of a run that can be started again.
RESUMABLE: Final = (PREEMPTED, "interrupted", "failed", "lost")


class Again(NamedTuple):
    """How a run is launched again.

    Attributes
    ----------
    arguments : list of str
        The arguments of ``tfmuster launch``.
    directory : str
        The working directory.
    env : dict of str
        Environment variables of the launcher.
    """

    arguments: list[str]
    directory: str
    env: dict[str, str]


def record_launch(run: Run, options: Sequence[str], command: Sequence[str], env: Mapping[str, str]) -> None:
    """Record how a run was launched. Values that look like secrets are not kept.

    Parameters
    ----------
    run : Run
        The run.
    options : sequence of str
        The job and where it runs, as options of ``tfmuster launch``.
    command : sequence of str
        The program and its arguments.
    env : mapping of str
        The job's own environment variables. The user's settings of tfmuster are recorded, too.
    """
    settings = {name: os.environ[name] for name in os.environ if name.startswith(PREFIX)}
    settings.pop(TOKEN_VARIABLE, None)
    variables = {**settings, **env}
    record = {
        "options": without_secrets(options),
        "command": without_secrets(command),
        "directory": os.getcwd(),
        "env": {name: without_secret(name, value) for name, value in variables.items()},
    }
    write_json(run.path / RESUME, record, mode=0o600)


def launch_again(run: Run) -> Again:
    """Return how to resume a run.

    Raises
    ------
    TfmusterError
        The run belongs to another user (reason ``foreign``).
    LaunchError
        The run has not ended, its program has finished, or it was launched in a way that can't be repeated
        from here (reason ``resume``).
    """
    check_owner(run.path, run.path / "run.json", run.path / "status.json", run.path / RESUME)
    state = run.status()["state"]
    if state not in RESUMABLE:
        runs = state in UNFINISHED
        raise LaunchError(
            "This run can't be resumed.",
            found=f"{run.name} is {state}" if runs else f"the program of {run.name} has finished",
            fix=f"Stop it first: {stop_text(run.name, save=True)}" if runs else "Start a new run.",
            reason="resume",
        )
    record = read_json(run.path / RESUME)
    given = [*record.get("options", ()), *record.get("command", ()), *record.get("env", {}).values()]
    if not record or any(HIDDEN in word for word in given):
        raise LaunchError(
            "This run can't be resumed by its name.",
            found="its command line or its environment has a secret, which is not kept"
            if record
            else "another program has started its workers",
            fix=Words(
                "Launch it as before, with {}: it resumes from its newest checkpoint.",
                Hint("run_dir", str(run.path)),
            ),
            reason="resume",
        )
    return Again([*record["options"], "--", *record["command"]], record["directory"], record["env"])


def resumed_seed(run_dir: str | os.PathLike[str] | None) -> int | None:
    """Return the seed of the unfinished run in a directory; None if there is none."""
    run = _unfinished_run(run_dir)
    seed = None if run is None else run.info().get("seed")
    return None if seed is None else int(seed)


def resumed_hash_seed(run_dir: str | os.PathLike[str] | None) -> str | None:
    """Return the seed of Python's hashes in the unfinished run in a directory; None if there is none."""
    run = _unfinished_run(run_dir)
    return None if run is None else str(run.info().get("hash_seed", "0"))


def _unfinished_run(run_dir: str | os.PathLike[str] | None) -> Run | None:
    if run_dir is None or not holds_run(Path(run_dir)):
        return None
    run = Run(run_dir)
    return run if run.status()["state"] in RESUMABLE else None


@contextlib.contextmanager
def resuming(path: Path, command: Sequence[str]) -> Iterator[Run | None]:
    """Provide the run in a directory if this command resumes it; None if the directory has no such run.

    Inside the block no other launcher can resume it.
    """
    record = path / "run.json"
    if not holds_run(path):
        yield None
        return
    run = Run(path)
    with record.open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield None
            return
        if not resumes(run, command):
            yield None
            return
        check_owner(run.path, record, run.path / "status.json")
        _prepare(run)
        yield run


def resumes(run: Run, command: Sequence[str]) -> bool:
    """Return whether a launch of this command in the directory of a run resumes it."""
    same = run.info().get("command") == without_secrets(command)
    return same and (run.status()["state"] in RESUMABLE or _is_of_this_job(run))


def _is_of_this_job(run: Run) -> bool:
    """Whether a run's launcher was in this batch job, which its system has started again, and so has gone."""
    batch, info = batch_job(), run.info()
    same = batch is not None and info.get(f"{batch.system}_job") == batch.number
    return same and run.status()["state"] in UNFINISHED and info.get("pid") != os.getpid()


def _prepare(run: Run) -> None:
    """End what is left of the earlier start, and mark its logs."""
    status = run.status()
    if status["state"] == "lost":
        end_left_over(run.info(), status)
    for path in run.log_paths().values():
        separate(path, f"resumed, {utc_now()}, after: {status['state']}")
    # A run that was ended while it waited for a batch system has none yet.
    (run.path / "logs").mkdir(exist_ok=True)
    for path in (*(run.path / "logs").glob("*.json"), run.path / "error.json"):
        path.unlink(missing_ok=True)


def separate(path: Path, line: str) -> None:
    """Append a line to a log that parts the output of two starts."""
    with path.open("ab+") as log:
        cut = ""
        if log.tell():
            log.seek(-1, 2)
            # The output of a killed worker may end in the middle of a line.
            cut = "" if log.read() == b"\n" else "\n"
        log.write(f"{cut}---- {line} ----\n".encode())


def resume_run(run: Run) -> None:
    """Restart a run in the background; see :meth:`.run.Run.resume`."""
    launch_again(run)
    done = subprocess.run(
        [*run_module("tfmuster"), "runs", "resume", "--detach", str(run.path)],
        env=with_tfmuster_on_path(os.environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        said = decoded(done.stderr, output_encoding(os.environ)).strip() or f"exit code {done.returncode}"
        parts = {"message": f"The run {run.name} could not be resumed.", "found": said}
        raise LaunchError(**(parts_of(said) or parts), reason="resume")

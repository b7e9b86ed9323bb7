"""Start a run again that has ended before its program had finished, in its own run directory.

The program resumes by itself: :func:`tfmuster.checkpoint_callback` finds its checkpoints there.
``resume.json`` has what starts the run again; only its owner can read it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from ..cluster.resolvers import batch_job
from ..errors import LaunchError
from ..system.interpreter import run_module, with_tfmuster_on_path
from .hidden_values import HIDDEN, without_secrets
from .layout import PREEMPTED, RESUME, UNFINISHED, read_json, utc_now, write_json
from .ownership import check_owner
from .run import Run

#: States of a run that can be started again.
RESUMABLE: Final = (PREEMPTED, "interrupted", "failed", "lost")


def record_launch(run: Run, options: Sequence[str], command: Sequence[str]) -> None:
    """Record how a run was launched. Values that look like secrets are not kept.

    Parameters
    ----------
    run : Run
        The run.
    options : sequence of str
        The job and where it runs, as options of ``tfmuster launch``.
    command : sequence of str
        The program and its arguments.
    """
    record = {
        "options": without_secrets(options),
        "command": without_secrets(command),
        "directory": os.getcwd(),
    }
    write_json(run.path / RESUME, record, mode=0o600)


def launch_again(run: Run) -> tuple[list[str], str]:
    """Return the arguments of ``tfmuster launch`` that resume a run, and the working directory.

    Raises
    ------
    TfmusterError
        The run belongs to another user (reason ``foreign``).
    LaunchError
        The run goes on, has done everything, or was started in a way that can't be repeated from here
        (reason ``resume``).
    """
    check_owner(run.path, run.path / "run.json", run.path / "status.json", run.path / RESUME)
    state = run.status()["state"]
    if state not in RESUMABLE:
        goes_on = state in UNFINISHED
        raise LaunchError(
            "This run can't be resumed.",
            found=f"{run.name} goes on" if goes_on else f"the program of {run.name} has finished",
            fix=f"Stop it first: tfmuster runs stop --save {run.name}" if goes_on else "Start a new run.",
            reason="resume",
        )
    record = read_json(run.path / RESUME)
    if not record or any(HIDDEN in word for word in (*record["options"], *record["command"])):
        raise LaunchError(
            "This run can't be resumed by its name.",
            found="its command line has a secret, which is not kept"
            if record
            else "another program has started its workers, or an older tfmuster",
            fix=f"Start it as before, with --run-dir {run.path}: it resumes from its last checkpoint.",
            reason="resume",
        )
    return [*record["options"], "--", *record["command"]], str(record["directory"])


def resumed_seed(run_dir: str | os.PathLike[str] | None) -> int | None:
    """Return the seed of the unfinished run in a directory; None if there is none."""
    if run_dir is None or not os.path.exists(Path(run_dir, "run.json")):
        return None
    run = Run(run_dir)
    seed = run.info().get("seed")
    return int(seed) if seed is not None and run.status()["state"] in RESUMABLE else None


@contextlib.contextmanager
def resuming(path: Path, command: Sequence[str]) -> Iterator[Run | None]:
    """Provide the run in a directory if this command resumes it; None if the directory has no such run.

    Inside the block no other launcher can resume it.
    """
    record = path / "run.json"
    # Unlike Path.exists, this allows names that are too long.
    if not os.path.exists(record):
        yield None
        return
    run = Run(path)
    with record.open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield None
            return
        same = run.info().get("command") == without_secrets(command)
        if not same or not (run.status()["state"] in RESUMABLE or _is_of_this_job(run)):
            yield None
            return
        check_owner(run.path, record, run.path / "status.json")
        _prepare(run)
        yield run


def _is_of_this_job(run: Run) -> bool:
    """Whether a run's launcher was in this batch job, which its system has started again, and so has gone."""
    batch, info = batch_job(), run.info()
    same = batch is not None and info.get(f"{batch.system}_job") == batch.number
    return same and run.status()["state"] in UNFINISHED and info.get("pid") != os.getpid()


def _prepare(run: Run) -> None:
    """End what is left of the earlier start, and mark its logs."""
    from ..system.processes import end_job

    status, info = run.status(), run.info()
    if status["state"] == "lost" and info.get("job"):
        end_job(info["job"])
    for path in run.log_paths().values():
        separate(path, f"resumed, {utc_now()}, after: {status['state']}")
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
    """Start a run again in the background; see :meth:`.run.Run.resume`."""
    launch_again(run)
    done = subprocess.run(
        [*run_module("tfmuster"), "runs", "resume", "--detach", str(run.path)],
        env=with_tfmuster_on_path(os.environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise LaunchError(
            f"The run {run.name} could not be resumed.",
            found=done.stderr.strip() or f"exit code {done.returncode}",
            reason="resume",
        )

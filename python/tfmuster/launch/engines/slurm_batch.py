"""A batch job of Slurm that runs ``tfmuster launch``: submitted, followed to its end, cancelled."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...errors import LaunchError, TfmusterError
from ...runs.failure import Failure
from ...runs.layout import STOP_COMMAND, UNFINISHED, read_json, utc_now, write_json
from ...runs.run import Run
from ...runs.states import State
from ...runs.tail import Tail
from ..supervise.display import LineDisplay, Row, display

_LOOK_SECONDS = 0.2
#: Slurm's controller is asked no oftener than this: it serves everybody.
_ASK_SECONDS = 2.0
#: How long a command of Slurm may take, and how long a file system may take to show what a node has written.
_ANSWER_SECONDS, _SHARED_SECONDS = 30.0, 5.0
#: How long Slurm may take to end a job's processes that it has asked to end.
_CANCEL_SECONDS = 60.0
_PENDING = ("PENDING", "CONFIGURING")
#: No state of Slurm's: its controller does not answer.
_UNKNOWN = "UNKNOWN"
_LAST_LINES = 20


@dataclass(frozen=True)
class Submitted:
    """A batch job.

    Attributes
    ----------
    number : str
        Slurm's own.
    run : Run
        Its run directory, there as soon as it has started.
    """

    number: str
    run: Run

    @property
    def log(self) -> Path:
        """What the batch job itself has written, beside the run directory."""
        return Path(log_of(self.run))

    def state(self) -> tuple[str, str]:
        """Its state in Slurm's word, and why it waits; "" when it is over."""
        said = _ask("squeue", "--noheader", "--jobs", self.number, "--format=%T|%r")
        if said is None:
            return _UNKNOWN, ""
        state, _, why = said.strip().partition("|")
        return state, why

    def cancel(self) -> None:
        """End it, and wait for that."""
        _ask("scancel", self.number)
        end = time.monotonic() + _CANCEL_SECONDS
        while self.state()[0] and time.monotonic() < end:
            time.sleep(_LOOK_SECONDS)


def submit(script: str, run: Run, command: Sequence[str], env: Mapping[str, str]) -> Submitted:
    """Hand a script to ``sbatch``; until it starts, the run directory says that it is starting.

    Raises
    ------
    LaunchError
        It is not taken.
    """
    if _started(run):
        raise LaunchError(
            "The run directory must be a new one.",
            found=f"{run.path} holds a run already",
            fix="Choose another, or remove it.",
            reason="run-dir",
        )
    program = slurm_program("sbatch")
    run.path.mkdir(parents=True, exist_ok=True)
    about = {"name": run.name, "command": list(command), "cluster": {}, "started": utc_now()}
    # No machine has its launcher yet.
    write_json(run.path / "run.json", {**about, "directory": os.getcwd(), "host": ""})
    done = subprocess.run(
        [program, "--parsable", "--export=ALL"],
        input=script,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=_ANSWER_SECONDS,
        check=False,
    )
    number = done.stdout.strip().partition(";")[0]
    if done.returncode or not number.isdigit():
        _forget(run)
        raise LaunchError(
            "Slurm must take the job.",
            found=done.stderr.strip() or f"sbatch ended with exit code {done.returncode}",
            fix="`tfmuster doctor` says whether Slurm answers, `sinfo` what there is to ask for.",
            reason="slurm",
        )
    # Not into run.json, which the launcher may be writing now.
    run.set_stop_command(["scancel", number])
    return Submitted(number, run)


def note_failed_start(run: Run, error: TfmusterError) -> None:
    """Inside the batch job: write down why it ends before its workers have started."""
    if run.status()["state"] == "starting":
        lines = tuple(str(error).splitlines())
        failure = _failure(run, "the launcher", f"could not start the workers: {lines[0]}", lines)
        # Not by Run.end: what never began is removed again, if the launcher waits.
        write_json(run.path / "error.json", failure.to_dict())
        run.set_status(state="failed")


def follow(job: Submitted, *, show: str, tell: bool) -> tuple[Run, Failure | None]:
    """Show a batch job's workers until it is over; its run directory, and its first failure.

    If this is interrupted, the batch job is cancelled.

    Raises
    ------
    LaunchError
        It could not be started.
    """
    if tell:
        _say(f"job {job.number} of Slurm; run directory {os.path.relpath(job.run.path)}")
    shown = display(show, job.run.path)
    try:
        _watch(job, shown, show, tell=tell)
    except BaseException:
        job.cancel()
        _keep_log(job)
        raise
    finally:
        shown.close()
    return _outcome(job)


def _watch(job: Submitted, shown: LineDisplay, show: str, *, tell: bool) -> None:
    tail: Tail | None = None
    next_question, told = 0.0, ""
    state = "PENDING"
    while state:
        if time.monotonic() >= next_question:
            next_question = time.monotonic() + _ASK_SECONDS
            state, why = job.state()
            if state == _UNKNOWN and _started(job.run) and _written_state(job.run) not in UNFINISHED:
                # Its launcher has said how it ended, which need not wait for a controller that is away.
                state = ""
            waiting = "waits" + ("" if why == "None" else f": {why}") if state in _PENDING else ""
            if tell and waiting not in ("", told):
                _say(f"job {job.number} {waiting}")
            told = waiting or told
        if tail is None and _started(job.run):
            tail = Tail(job.run, None)
        if not state:
            _wait_for_files(job.run)
        if tail is not None and show != "nothing":
            for line in tail.new_lines(last=not state):
                if show == "all" or line.split(" | ")[0].strip() == _chief(job.run):
                    shown.line(line)
        shown.look(lambda: _rows(job.run))
        time.sleep(_LOOK_SECONDS)


def _wait_for_files(run: Run) -> None:
    """Give a shared file system the time to show how the run has ended."""
    end = time.monotonic() + _SHARED_SECONDS
    while _started(run) and _written_state(run) in UNFINISHED and time.monotonic() < end:
        time.sleep(_LOOK_SECONDS)


def _keep_log(job: Submitted) -> str:
    """Put what the batch job has written where the run's other logs are, if there are any; its text."""
    try:
        text = job.log.read_text(errors="replace").strip()
        if _started(job.run):
            job.log.replace(job.run.path / "logs" / "slurm.log")
        else:
            job.log.unlink()
    except OSError:
        return ""
    return text


def _outcome(job: Submitted) -> tuple[Run, Failure | None]:
    run = job.run
    text = _keep_log(job)
    lines = tuple(text.splitlines()[-_LAST_LINES:])
    if not _started(run):
        _forget(run)
        raise LaunchError(
            f"Job {job.number} of Slurm must start its workers.",
            found=text.removeprefix("Error: ")[-2000:] or _ending(job),
            reason="slurm",
        )
    state = _written_state(run)
    if state == "done":
        return run, None
    if (error := run.error()) and state == "failed":
        return run, Failure.from_dict(error)
    failure = _failure(run, f"job {job.number}", f"was ended by Slurm: {_ending(job)}", lines)
    if state in UNFINISHED:
        # Its launcher was killed, and could not write it.
        run.end("failed", failure.to_dict())
    return run, failure


def _failure(run: Run, who: str, error: str, lines: tuple[str, ...]) -> Failure:
    return Failure(
        time=time.time(),
        task=who,
        host=str(run.info().get("host") or socket.gethostname()),
        exit_code=None,
        signal=None,
        error=error,
        traceback="",
        last_lines=lines,
        log=str(run.path / "logs" / "slurm.log"),
    )


def _started(run: Run) -> bool:
    """Whether the launcher on the nodes has made the run directory its own."""
    return (run.path / "logs").is_dir()


def _forget(run: Run) -> None:
    """Remove what a job has left that never started."""
    for name in ("run.json", "status.json", "error.json", STOP_COMMAND):
        (run.path / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        run.path.rmdir()


def _written_state(run: Run) -> str:
    """As its launcher has written it, on whichever node that runs."""
    return str(read_json(run.path / "status.json").get("state", "starting"))


def _ending(job: Submitted) -> str:
    """Slurm's word for how a job has ended, such as TIMEOUT."""
    said = _ask("scontrol", "--oneliner", "show", "job", job.number) or ""
    fields = dict(word.partition("=")[::2] for word in said.split())
    return fields.get("JobState", "it does not say why")


def _chief(run: Run) -> str:
    tasks = run.log_paths()
    return "chief 0" if "chief 0" in tasks else "worker 0"


def _rows(run: Run) -> list[Row]:
    tasks = read_json(run.path / "status.json").get("tasks", {})
    return [(name, str(entry["host"]), State(str(entry["state"]))) for name, entry in tasks.items()]


def _ask(*command: str) -> str | None:
    """What a command of Slurm says; None if it fails, which it may when the controller is busy."""
    try:
        done = subprocess.run(
            [slurm_program(command[0]), *command[1:]],
            capture_output=True,
            text=True,
            timeout=_ANSWER_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None
    # A job that is long over is no longer known, which is an answer.
    unknown = "Invalid job id" in done.stderr
    return done.stdout if done.returncode == 0 or unknown else None


def _say(text: str) -> None:
    print(f"tfmuster: {text}", file=sys.stderr, flush=True)


def log_of(run: Run) -> str:
    """Where a batch job writes itself: beside its run directory, which is not there yet."""
    return f"{run.path}.slurm.log"


def slurm_program(name: str) -> str:
    """The path of one of Slurm's commands. Raises LaunchError if there is none."""
    path = shutil.which(name)
    if path is None:
        raise LaunchError(
            "The backend slurm needs Slurm's commands.",
            found=f"no {name} on PATH",
            fix="Run it on a machine from which jobs are submitted.",
            reason="slurm",
        )
    return path

"""Follow a batch job that was submitted: ask for its state, show it, cancel it, and find how it ended."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path

from ...errors import LaunchError, TfmusterError
from ...system.say import say
from ...tracking.failure.failure import Failure
from ...tracking.live.states import State
from ...tracking.record.layout import (
    NAMED,
    PREEMPTED,
    RESUME,
    STOP_COMMAND,
    UNFINISHED,
    read_json,
    write_json,
)
from ...tracking.record.recording import record_end, record_status
from ...tracking.run import Run
from ...tracking.show.tail import Tail
from ..supervise.display import Display, display
from ..supervise.worker_table import Row
from .batch_commands import BatchCommands, Phase

_LOOK_SECONDS = 0.2
#: The batch system is asked no more often than this: it serves everybody.
_ASK_SECONDS = 2.0
#: How long a file system may take to show what a node has written.
_SHARED_SECONDS = 5.0
#: How long it may take to end a job's processes.
_CANCEL_SECONDS = 60.0
_LAST_LINES = 20


@dataclass(frozen=True)
class Submitted:
    """A batch job: its batch system, that system's number for it, and its run, which its start makes."""

    system: BatchCommands
    number: str
    run: Run

    @property
    def title(self) -> str:
        """Its name in texts."""
        return f"job {self.number} of {self.system.title}"

    @property
    def log(self) -> Path:
        """What the batch job itself has written, beside the run directory."""
        return log_of(self.run, self.system.name)

    def cancel(self) -> None:
        """End it, and wait for that."""
        self.system.end_job(self.number)
        end = time.monotonic() + _CANCEL_SECONDS
        while self.system.state(self.number).phase is not Phase.OVER and time.monotonic() < end:
            time.sleep(_LOOK_SECONDS)


def log_of(run: Run, name: str) -> Path:
    """Return where the batch job itself writes: beside its run directory, which is not there yet."""
    return run.path.with_name(f"{run.path.name}.{name}.log")


def follow(job: Submitted, *, show: str, tell: bool) -> tuple[Run, Failure | None]:
    """Show a batch job until it is over; cancel it on an interrupt. Return its run and first failure."""
    if tell:
        say(f"tfmuster: {job.title}; run directory {os.path.relpath(job.run.path)}")
    shown = display(show, job.run.path)
    try:
        _watch(job, shown, show, tell=tell)
    except BaseException:
        job.cancel()
        _keep_log(job)
        if not has_started(job.run):
            forget(job.run)
        else:
            _wait_for_files(job.run)
            if _written_state(job.run) in UNFINISHED:
                # Its launcher was killed before it could write that.
                record_end(job.run.path, "interrupted")
        raise
    finally:
        shown.close()
    return _outcome(job)


def _watch(job: Submitted, shown: Display, show: str, *, tell: bool) -> None:
    tail: Tail | None = None
    next_question, told = 0.0, ""
    over = False
    while not over:
        if time.monotonic() >= next_question:
            next_question = time.monotonic() + _ASK_SECONDS
            state = job.system.state(job.number)
            if state.phase is Phase.STUCK:
                raise LaunchError(
                    f"{job.title[0].upper()}{job.title[1:]} must start.",
                    found=state.why,
                    fix=f"See that every node has the directory {os.getcwd()}; the job has been removed.",
                    reason="batch",
                )
            # Its launcher has said how it ended: that need not wait for a batch system that does not answer.
            silent = state.phase is Phase.UNKNOWN and has_started(job.run)
            over = state.phase is Phase.OVER or (silent and _written_state(job.run) not in UNFINISHED)
            waits = state.phase is Phase.WAITING
            waiting = f"waits: {state.why}".removesuffix(": ") if waits else ""
            if tell and waiting not in ("", told):
                say(f"tfmuster: job {job.number} {waiting}")
            told = waiting or told
        if tail is None and has_started(job.run):
            tail = Tail(job.run, all_output=show != "all")
        if over:
            _wait_for_files(job.run)
        if tail is not None and show != "nothing":
            for line in tail.each_new_line(last=over):
                if show in ("all", "each") or line.split(" | ")[0].strip() == _chief(job.run):
                    shown.line(line)
        shown.look(lambda: _rows(job.run))
        time.sleep(_LOOK_SECONDS)


def _wait_for_files(run: Run) -> None:
    """Give a shared file system the time to show how the run has ended."""
    end = time.monotonic() + _SHARED_SECONDS
    while has_started(run) and _written_state(run) in UNFINISHED and time.monotonic() < end:
        time.sleep(_LOOK_SECONDS)


def note_failed_start(run: Run, error: TfmusterError, backend: str) -> None:
    """Record, inside the batch job, why it ends before its workers have started."""
    if run.status()["state"] == "starting":
        lines = tuple(str(error).splitlines())
        failure = _failure(run, backend, "the launcher", f"could not start the workers: {lines[0]}", lines)
        # Not by record_end(): what never began is removed again, if the launcher waits.
        write_json(run.path / "error.json", failure.to_dict())
        record_status(run.path, state="failed")


def _keep_log(job: Submitted) -> str:
    """Put what the batch job has written to the run's other logs, if there are any. Return its text."""
    try:
        text = job.log.read_text(errors="replace").strip()
        if has_started(job.run):
            job.log.replace(job.run.path / "logs" / f"{job.system.name}.log")
        else:
            job.log.unlink()
    except OSError:
        return ""
    return text


def _outcome(job: Submitted) -> tuple[Run, Failure | None]:
    run, system = job.run, job.system
    text = _keep_log(job)
    lines = tuple(text.splitlines()[-_LAST_LINES:])
    if not has_started(run):
        forget(run)
        raise LaunchError(
            f"Job {job.number} of {system.title} must start its workers.",
            found=text.removeprefix("Error: ")[-2000:] or _ending(job),
            fix=None if text else "See that every node has this directory, and tfmuster at the same path.",
            reason="batch",
        )
    state = _written_state(run)
    if state in ("done", PREEMPTED):
        return run, None
    if (error := run.error()) and state == "failed":
        return run, Failure.from_dict(error)
    cause = f"was ended by {system.title}: {_ending(job)}"
    failure = _failure(run, system.name, f"job {job.number}", cause, lines)
    if state in UNFINISHED:
        # Its launcher was killed, and could not write it.
        record_end(run.path, "failed", failure.to_dict())
    return run, failure


def _ending(job: Submitted) -> str:
    return job.system.ending(job.number, str(job.run.info().get("host") or "")) or "it does not say why"


def _failure(run: Run, backend: str, who: str, error: str, lines: tuple[str, ...]) -> Failure:
    return Failure(
        time=time.time(),
        task=who,
        host=str(run.info().get("host") or socket.gethostname()),
        exit_code=None,
        signal=None,
        error=error,
        traceback="",
        last_lines=lines,
        log=str(run.path / "logs" / f"{backend}.log"),
    )


def has_started(run: Run) -> bool:
    """Return whether the launcher on the nodes has made the run directory its own."""
    return (run.path / "logs").is_dir()


def forget(run: Run) -> None:
    """Remove what a job has left that never started."""
    for name in ("run.json", "status.json", "error.json", RESUME, STOP_COMMAND, NAMED):
        (run.path / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        run.path.rmdir()


def _written_state(run: Run) -> str:
    """Return the state as its launcher has written it, on whichever node that runs."""
    return str(read_json(run.path / "status.json").get("state", "starting"))


def _chief(run: Run) -> str:
    tasks = run.log_paths()
    return "chief 0" if "chief 0" in tasks else "worker 0"


def _rows(run: Run) -> list[Row]:
    tasks = read_json(run.path / "status.json").get("tasks", {})
    return [(name, str(entry["host"]), State(str(entry["state"]))) for name, entry in tasks.items()]

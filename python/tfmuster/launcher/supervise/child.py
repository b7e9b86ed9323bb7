"""Run the program of a task as a child process of the one that an engine started, so that it ends reliably.

MPI, Slurm and Kubernetes control only the process that they start. TensorFlow survives SIGTERM, and may wait
for its peers without limit after its program has failed. So the engine's process stays, forwards signals, and
ends with the program's exit code when the program has failed or ended.
"""

from __future__ import annotations

import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import FrameType

from ...environment import ERROR_FILE_VARIABLE, JOB_VARIABLE, grace
from ...errors import EXIT_WORKER_FAILED, LaunchError
from ...system.processes import adopt_orphans, dismiss_guard, end_job, start_guard
from ...system.worker_environment import worker_environment
from ...tracking.lifecycle.preemption import child_saves
from ...tracking.record.layout import read_json
from .time_limits import SUPERVISOR
from .worker_process import LEAVING_SECONDS

#: Signals that end a program by default.
_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_PASSED_ON: tuple[int, ...] = (*_ENDING, signal.SIGUSR1, signal.SIGUSR2)
_LOOK_SECONDS = 0.2


def run_child(command: Sequence[str], environ: Mapping[str, str], hosts: Iterable[str] = ()) -> int:
    """Run a program to its end, and end all its descendants. Return its exit code, negative for a signal.

    What prepares a worker's Python is added to the environment. `hosts` are those of the job's tasks, as far
    as they are known. Raises LaunchError if the program can't be started.
    """
    job = secrets.token_hex(16)
    folder = Path(tempfile.mkdtemp(prefix="tfmuster-"))
    note_path = environ.get(ERROR_FILE_VARIABLE) or str(folder / "error.json")
    environment = {**worker_environment(environ, hosts), JOB_VARIABLE: job, ERROR_FILE_VARIABLE: note_path}
    guard = start_guard(job, folder)
    adopt_orphans(only_job=True)
    try:
        child = _Child(command, environment, Path(note_path))
        return child.follow()
    finally:
        end_job(job, grace=SUPERVISOR.seconds)
        dismiss_guard(guard)
        shutil.rmtree(folder, ignore_errors=True)


class _Child:
    """The running program, and the request to end it."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], note_path: Path) -> None:
        self._note_path = note_path
        #: Time by which the program must end after it was asked to.
        self._deadline = float("inf")
        self._process: subprocess.Popen[bytes] | None = None
        self._early: list[int] = []
        #: When a note of an exception was first seen, by a clock that nobody sets.
        self._seen_note: float | None = None
        for number in _PASSED_ON:
            # What is ignored here, such as SIGHUP under nohup, the program ignores, too.
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._pass_on)
        try:
            self._process = subprocess.Popen(command, env=dict(environment), stdin=subprocess.DEVNULL)
        except OSError as error:
            raise LaunchError(
                "The program must be executable.",
                found=f"{command[0]}: {error.strerror}",
                reason="command",
            ) from error
        for early in self._early:
            self._pass_on(early, None)

    def follow(self) -> int:
        """Wait until the program has ended, or has failed and does not end. Return its exit code."""
        assert self._process is not None
        while True:
            try:
                return self._process.wait(timeout=_LOOK_SECONDS)
            except subprocess.TimeoutExpired:
                pass
            if self._lingers():
                return EXIT_WORKER_FAILED
            if time.monotonic() > self._deadline:
                self._process.kill()

    def _lingers(self) -> bool:
        """Return whether the program failed some time ago. TensorFlow may wait for peers while it exits."""
        assert self._process is not None
        if read_json(self._note_path).get("pid") != self._process.pid:
            return False
        now = time.monotonic()
        self._seen_note = now if self._seen_note is None else self._seen_note
        return now - self._seen_note > LEAVING_SECONDS

    def _pass_on(self, number: int, _: FrameType | None) -> None:
        if self._process is None:
            self._early.append(number)
            return
        self._process.send_signal(number)
        if number in _ENDING:
            # A program may catch SIGTERM, and continue.
            seconds = grace() if child_saves(self._note_path) else SUPERVISOR.seconds
            self._deadline = min(self._deadline, time.monotonic() + seconds)

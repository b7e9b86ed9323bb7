"""Track one worker for its supervisor: its process, its output, and how it failed."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

import psutil

from ...environment import ERROR_FILE_VARIABLE
from ...system.limits import cannot_start
from ...system.processes import birth
from ...system.terminal_text import Lines, output_encoding
from ...tracking.failure.error_file import UNPRINTED
from ...tracking.failure.failure import FROZEN, LAST_LINES, Failure, not_writable
from ...tracking.failure.texts import HEADER, without_traceback
from ...tracking.live.states import UNSEEN_ENDS, State
from ...tracking.record.layout import PREEMPTED, file_stem, read_json

#: Tasks that serve others, and are ended when the others have finished.
SERVING = ("ps", "evaluator")
#: How long a worker may take to exit after an uncaught exception, in seconds.
LEAVING_SECONDS = 5.0
#: How long a worker may be stopped by a signal, in seconds.
FROZEN_SECONDS = 10.0
#: After how many seconds a stopped worker explains another worker's failure. TensorFlow waits about 6 s.
_SUSPECT_SECONDS = 3.0
#: How long a worker that has printed a traceback may take to end, in seconds. Otherwise it continues.
_HELD_SECONDS = 2.0
#: For how long a phase is shown whose end is not seen in every program, in seconds.
_UNSEEN_SECONDS = 60.0


@dataclass(frozen=True)
class Placement:
    """One process to start."""

    #: Such as ``worker 0``.
    task: str
    is_chief: bool
    command: tuple[str, ...]
    #: The complete environment.
    env: Mapping[str, str]
    #: For the proxy of a worker on another machine: that machine, and its cores.
    host: str = ""
    cores: int | None = None
    #: Starts the proxy.
    start: Callable[[], subprocess.Popen[bytes]] | None = None


class HeldLines:
    """The lines of one worker from a traceback on, which are shown unless the worker has failed with it."""

    def __init__(self) -> None:
        self._held: list[str] = []
        self._since = 0.0

    def pass_on(self, lines: Sequence[str]) -> list[str]:
        """Return those of the lines that can be shown now."""
        if not self._held:
            begin = next((at for at, line in enumerate(lines) if line == HEADER), len(lines))
            lines, held = lines[:begin], lines[begin:]
            self._since = time.monotonic()
        else:
            lines, held = [], lines
        self._held += held
        return list(lines)

    def overdue(self, note: Mapping[str, object]) -> list[str]:
        """Return lines that have been held too long for a worker that fails, unless it has left a note."""
        if not self._held or note or time.monotonic() < self._since + _HELD_SECONDS:
            return []
        return self._release()

    def end(self, note: Mapping[str, object]) -> list[str]:
        """Return what is not part of the error in the worker's note, when the worker has ended."""
        held = self._release()
        trace, error = note.get("traceback"), note.get("error")
        if not (held and isinstance(trace, str) and trace and isinstance(error, str)):
            return held
        return without_traceback(trace, error, held)

    def _release(self) -> list[str]:
        held, self._held = self._held, []
        return held


def start_process(
    placement: Placement, env: Mapping[str, str] | None = None, *, stdin: int = subprocess.DEVNULL
) -> subprocess.Popen[bytes]:
    """Start a worker's process in a session of its own, with another environment if `env` is one."""
    return subprocess.Popen(
        placement.command,
        env=dict(placement.env if env is None else env),
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        bufsize=0,
        # The terminal's Ctrl-C reaches only the launcher, which then ends the workers in order.
        start_new_session=True,
    )


@dataclass
class WorkerProcess:
    """A worker's process, and its state."""

    placement: Placement
    process: subprocess.Popen[bytes]
    log: IO[bytes]
    log_path: Path
    note_path: Path
    lines: Lines = field(default_factory=Lines)
    held: HeldLines = field(default_factory=HeldLines)
    last_lines: deque[str] = field(default_factory=lambda: deque(maxlen=LAST_LINES))
    code: int | None = None
    ended: float = 0.0
    #: The process that a signal has stopped ("" for none), the time it was stopped, and for how many seconds.
    stopped: str = ""
    stopped_at: float = 0.0
    stopped_for: float = 0.0
    #: When this was first seen, and when a note of an exception was, by a clock that nobody sets.
    seen_stopped: float | None = None
    seen_note: float | None = None
    #: Whether the launcher ended it, so that its exit code does not count.
    dismissed: bool = False
    #: Whether it has reported that it serves others and ends by itself.
    serves: bool = False
    #: Whether it has failed and the job continues without it.
    lost: bool = False
    #: Whether it has ended after a checkpoint because of a shutdown signal.
    left: bool = False
    #: Its phase when it was last looked at, since when, and whether it has trained.
    phase: str = "starting"
    phase_since: float = field(default_factory=time.monotonic)
    has_trained: bool = False

    @classmethod
    def started(
        cls, placement: Placement, run_dir: Path, start: Callable[[Placement], subprocess.Popen[bytes]]
    ) -> WorkerProcess:
        """Start a worker whose log is in a run directory. Raises TfmusterError if that fails."""
        log_path = run_dir / "logs" / f"{file_stem(placement.task)}.log"
        try:
            log = log_path.open("ab")
        except OSError as error:
            raise not_writable(run_dir, error) from error
        try:
            process = start(placement)
        except OSError as error:
            log.close()
            raise cannot_start(placement.task.capitalize(), error) from error
        # What runs on another machine is guessed to have the encoding of this one.
        lines = Lines(output_encoding({**os.environ, **placement.env}))
        return cls(placement, process, log, log_path, Path(placement.env[ERROR_FILE_VARIABLE]), lines)

    @property
    def task(self) -> str:
        """Name of the task, such as ``worker 0``."""
        return self.placement.task

    @property
    def host(self) -> str:
        """Name of its machine."""
        return self.placement.host or socket.gethostname()

    @property
    def pid(self) -> int | None:
        """Process ID on its machine; None until another machine has reported it."""
        return self._remote().get("pid") if self.placement.host else self.process.pid

    @property
    def serving(self) -> bool:
        """Whether it runs for as long as other tasks do."""
        return self.task.split()[0] in SERVING

    @property
    def failed(self) -> bool:
        """Whether it has ended by itself with an error."""
        return bool(self.code) and not (self.dismissed or self.lost or self.left)

    @property
    def frozen(self) -> bool:
        """Whether it has been stopped for too long."""
        return self.stopped_for > FROZEN_SECONDS

    def state(self) -> str:
        """Return its state in one word."""
        if self.code is None:
            return "running"
        if self.lost:
            return "lost"
        if self.left:
            return PREEMPTED
        return "ended" if self.dismissed else "failed" if self.code else "done"

    def doing(self, states: Mapping[str, State]) -> State:
        """Return its state; while it runs, the state that it reports itself, if any."""
        if self.code is not None:
            return State(self.state())
        if self.stopped_for > _SUSPECT_SECONDS:
            return State("stopped")
        state = states.get(self.task) or State("running" if self.last_lines else "starting")
        now = time.monotonic()
        if state.phase != self.phase:
            self.phase, self.phase_since = state.phase, now
        self.has_trained = self.has_trained or not (state.starts or state.phase == "running")
        if self.has_trained or not state.starts:
            return state
        if state.phase in UNSEEN_ENDS and now - self.phase_since > _UNSEEN_SECONDS:
            return State("running")
        return replace(state, seconds=now - self.phase_since)

    def status(self) -> dict[str, Any]:
        """Return its entry in ``status.json``."""
        entry = {"state": self.state(), "host": self.host, "pid": self.pid, "exit_code": self.code}
        with contextlib.suppress(psutil.Error):
            if self.code is None and not self.placement.host:
                # If the launcher is killed, another session finds the process by both.
                entry["birth"] = birth(psutil.Process(self.process.pid))
        return entry

    def note(self) -> dict[str, Any]:
        """Return what `sitecustomize` wrote about an uncaught exception.

        While the worker runs, only its own note counts, because a script may survive the failure of another
        Python that it started.
        """
        note = read_json(self.note_path)
        return note if self.failed or note.get("pid") == self.process.pid else {}

    def unprinted(self) -> bytes:
        """Return what its log lacks of its error, because the program has not printed it."""
        text = self.note().get(UNPRINTED)
        return f"{text}\n".encode() if text and isinstance(text, str) else b""

    def lingers(self) -> bool:
        """Return whether it has failed but does not end. TensorFlow may wait for its peers while it exits."""
        if self.code is not None or not self.note():
            return False
        now = time.monotonic()
        self.seen_note = now if self.seen_note is None else self.seen_note
        return now - self.seen_note > LEAVING_SECONDS

    def look(self, stopped: Mapping[int, int]) -> None:
        """Record whether a signal has stopped it. `stopped` is what :func:`.stopped_trees` returns."""
        remote = self._remote()
        since = float(remote.get("stopped_at") or 0.0)
        if self.code is not None:
            self.stopped = ""
        elif (pid := stopped.get(self.process.pid)) is not None:
            which = "its connection, process {} here," if self.placement.host else "process {}"
            self.stopped = which.format(pid)
            since = self.stopped_at or time.time()
        else:
            self.stopped = f"process {remote['stopped']}" if remote.get("stopped") else ""
        now = time.monotonic()
        if not self.stopped:
            self.seen_stopped = None
        elif self.seen_stopped is None:
            self.seen_stopped = now
        self.stopped_at = since if self.stopped else 0.0
        self.stopped_for = 0.0 if self.seen_stopped is None else now - self.seen_stopped

    def failure(self) -> Failure | None:
        """Return its failure, or None if it has not failed before the launcher ended it."""
        if self.lost or self.left:
            return None
        note = self.note()
        suspect = self.stopped_for > _SUSPECT_SECONDS
        if not self.failed and not note and not suspect:
            return None
        if suspect:
            code, note = None, {"error": FROZEN.format(self.stopped), "time": self.stopped_at}
        else:
            code = self.code if self.code and not self.dismissed else 1
        return Failure.of(
            self.task,
            host=self.host,
            code=code,
            time=self.ended,
            note=note,
            last_lines=tuple(self.last_lines),
            log=str(self.log_path),
        )

    def _remote(self) -> dict[str, Any]:
        """Read what its proxy recorded about the process on another host."""
        return read_json(remote_path(self.note_path)) if self.placement.host else {}


def first_failure(workers: Iterable[WorkerProcess], until: float = float("inf")) -> Failure | None:
    """Return the earliest failure, if it is not later than `until`."""
    failures = [failure for worker in workers if (failure := worker.failure())]
    return min((f for f in failures if f.cause_time <= until), key=lambda f: f.cause_time, default=None)


def signal_of(workers: Iterable[WorkerProcess]) -> int:
    """Return the signal because of which workers have left."""
    codes = [worker.code for worker in workers if worker.left and worker.code]
    return max([code - 128 for code in codes if code > 128], default=signal.SIGTERM)


def remote_path(note_path: Path) -> Path:
    """Return the file in which the proxy of a worker on another host records the process there."""
    return note_path.with_name(note_path.name.replace(".error.json", ".remote.json"))

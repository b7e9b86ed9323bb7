"""A worker as its supervisor sees it: a process, its output, and how it fails."""

from __future__ import annotations

import socket
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from ...runs.failure import FROZEN, LAST_LINES, Failure
from ...runs.layout import read_json
from ...runs.states import State
from ...runs.terminal_text import Lines

#: Tasks that serve the others, and are ended when the others are done.
SERVING = ("ps", "evaluator")
#: How long a worker may take to leave Python after an exception that nobody caught, seconds.
LEAVING_SECONDS = 5.0
#: How long a worker may be stopped by a signal, seconds.
FROZEN_SECONDS = 10.0
#: From when on that explains another worker's failure, seconds: TensorFlow does without it for about six.
_SUSPECT_SECONDS = 3.0


@dataclass(frozen=True)
class Placement:
    """One process to start: its task, such as ``worker 0``, its argument list, its whole environment.

    Where the process stands in for one of another machine, `host` names that, and `start` gives the process.
    """

    task: str
    is_chief: bool
    command: tuple[str, ...]
    env: Mapping[str, str]
    host: str = ""
    start: Callable[[], subprocess.Popen[bytes]] | None = None


@dataclass
class WorkerProcess:
    """A process that was started, and what is known of it."""

    placement: Placement
    process: subprocess.Popen[bytes]
    log: IO[bytes]
    log_path: Path
    note_path: Path
    lines: Lines = field(default_factory=Lines)
    last_lines: deque[str] = field(default_factory=lambda: deque(maxlen=LAST_LINES))
    code: int | None = None
    ended: float = 0.0
    #: What has been stopped by a signal, "" for nothing, since when, and for how long that has been seen.
    stopped: str = ""
    stopped_at: float = 0.0
    stopped_for: float = 0.0
    #: Whether the launcher ended it, so that its exit code says nothing.
    dismissed: bool = False
    #: Whether it has said that it serves others and ends by itself.
    serves: bool = False
    #: Whether the job goes on although it has failed.
    lost: bool = False

    @property
    def task(self) -> str:
        """Such as ``worker 0``."""
        return self.placement.task

    @property
    def host(self) -> str:
        """The name of its machine."""
        return self.placement.host or socket.gethostname()

    @property
    def pid(self) -> int | None:
        """The process on its machine; None if that is another one and has not told yet."""
        return self._remote().get("pid") if self.placement.host else self.process.pid

    @property
    def serving(self) -> bool:
        """Whether it goes on for as long as others do."""
        return self.task.split()[0] in SERVING

    @property
    def failed(self) -> bool:
        """Whether it has ended, by itself, and not well."""
        return bool(self.code) and not self.dismissed and not self.lost

    @property
    def frozen(self) -> bool:
        """Whether it has been stopped for longer than anybody would want."""
        return self.stopped_for > FROZEN_SECONDS

    def state(self) -> str:
        """Its state in a word."""
        if self.code is None:
            return "running"
        if self.lost:
            return "lost"
        return "ended" if self.dismissed else "failed" if self.code else "done"

    def doing(self, said: Mapping[str, State]) -> State:
        """What it is doing; as long as it runs, what it says itself, if it says anything."""
        if self.code is not None:
            return State(self.state())
        if self.stopped_for > _SUSPECT_SECONDS:
            return State("stopped")
        return said.get(self.task) or State("running" if self.last_lines else "starting")

    def status(self) -> dict[str, Any]:
        """As in ``status.json``."""
        return {"state": self.state(), "host": self.host, "pid": self.pid, "exit_code": self.code}

    def note(self) -> dict[str, Any]:
        """What `sitecustomize` wrote about an exception that nobody caught.

        While the worker lives, only the worker's own: a script may well survive the failure of a Python that
        it started.
        """
        note = read_json(self.note_path)
        return note if self.failed or note.get("pid") == self.process.pid else {}

    def lingers(self) -> bool:
        """Whether it has failed but does not end: TensorFlow may wait for its peers on the way out."""
        if self.code is not None or not self.note_path.exists():
            return False
        return bool(time.time() - self.note().get("time", float("inf")) > LEAVING_SECONDS)

    def look(self, stopped: Mapping[int, int]) -> None:
        """Note whether a signal has stopped it.

        Parameters
        ----------
        stopped : mapping of int
            Of this machine's processes, those that are stopped or have a descendant that is, and which.
        """
        there = self._remote()
        since = float(there.get("stopped_at") or 0.0)
        if self.code is not None:
            self.stopped = ""
        elif (pid := stopped.get(self.process.pid)) is not None:
            which = "its connection, process {} here," if self.placement.host else "process {}"
            self.stopped = which.format(pid)
            since = self.stopped_at or time.time()
        else:
            self.stopped = f"process {there['stopped']}" if there.get("stopped") else ""
        self.stopped_at = since if self.stopped else 0.0
        self.stopped_for = time.time() - since if self.stopped else 0.0

    def failure(self) -> Failure | None:
        """Its failure, or None if it has not failed, or not before it was dismissed."""
        if self.lost:
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
        """What its proxy has noted of the process on another host."""
        return read_json(remote_path(self.note_path)) if self.placement.host else {}


def remote_path(note_path: Path) -> Path:
    """Where the proxy of a worker on another host notes what is known of the process there."""
    return note_path.with_name(note_path.name.replace(".error.json", ".remote.json"))

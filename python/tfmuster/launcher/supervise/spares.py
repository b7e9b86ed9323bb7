"""Keep processes that have imported TensorFlow and wait, so that a worker need not begin from nothing.

A spare process has a worker's command, and what of its environment is the same in each attempt. It waits in
:mod:`tfmuster.worker.warm`, before its program is read, and becomes the worker when it gets the rest.
"""

from __future__ import annotations

import abc
import atexit
import contextlib
import json
import os
import subprocess
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from ...environment import OF_ONE_WORKER, WARM_VARIABLE
from ...errors import LaunchError
from ...system.interpreter import python_executable, rscript_executable
from ...system.processes import forget_helper, note_helper
from .worker_process import Placement, start_process

if TYPE_CHECKING:
    from typing_extensions import Self

    from ..job import Job

#: The variables that a process may get after it has imported TensorFlow. All others must be the same.
_LATER = OF_ONE_WORKER | {"TF_CONFIG", "no_proxy", "no_grpc_proxy"}


class Waiting(abc.ABC):
    """Processes that wait to become workers. Use it in a ``with`` block, at whose end they end."""

    #: Whether `prepare` starts processes: not for the last attempt of a job.
    wanted = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def take(self, placement: Placement) -> subprocess.Popen[bytes] | None:
        """Let a waiting process of this machine become this worker. Return None if none is there that can."""
        return None

    @abc.abstractmethod
    def prepare(self, placements: Iterable[Placement]) -> None:
        """Start processes for the next attempt; all workers train."""

    def refill(self, placements: Iterable[Placement]) -> None:  # noqa: B027
        """Prepare for another job, after one with these workers."""

    @abc.abstractmethod
    def close(self) -> None:
        """End those that still wait."""


def check_warm(job: Job, program: str, *, waits: bool) -> None:
    """Raise LaunchError if no process could wait for a job; `waits` is whether its program could."""
    if not job.max_restarts:
        found, fix = "no restarts", "Set max_restarts, too, or leave warm out."
    elif not waits:
        found, fix = f"the program {program}", "Launch a Python or R script, or leave warm out."
    else:
        return
    raise LaunchError(
        "Spare processes (warm) wait for a restart of a Python or R script.",
        found=found,
        fix=fix,
        reason="warm",
    )


def can_wait(command: Sequence[str]) -> bool:
    """Return whether this command runs a program in a Python or R, and not one that would begin at once."""
    program, *arguments = command
    # Options of Python, such as -I, may keep it from waiting.
    is_script = arguments[:1] == ["-m"] or Path(*arguments[:1]).suffix == ".py"
    return is_own(program) or (is_script and Path(program).name.startswith("python"))


def is_own(program: str) -> bool:
    """Return whether a program is the Python or the R of this process, not that of another environment."""
    return program in (python_executable(), rscript_executable())


@dataclass(frozen=True)
class _Spare:
    process: subprocess.Popen[bytes]
    command: tuple[str, ...]
    env: Mapping[str, str]
    folder: Path

    def fits(self, placement: Placement) -> bool:
        """Return whether it can become this worker, which may have more arguments."""
        same = placement.command[: len(self.command)] == self.command and Path.cwd() == self.folder
        return same and _lasting(placement.env) == self.env and self.process.poll() is None

    def begin(self, placement: Placement) -> bool:
        """Make it the worker. Return whether it has got its work."""
        assert self.process.stdin is not None
        later = {name: value for name, value in placement.env.items() if name in _LATER}
        work = {"variables": later, "arguments": placement.command[len(self.command) :]}
        try:
            self.process.stdin.write(json.dumps(work).encode() + b"\n")
            self.process.stdin.close()
        except OSError:
            return False
        return True

    def end(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()
        forget_helper(self.process.pid)


class Spares(Waiting):
    """The spare processes of a job."""

    def __init__(self) -> None:
        self._waiting: list[_Spare] = []
        self._lock = threading.RLock()

    def prepare(self, placements: Iterable[Placement]) -> None:
        """Start a process, if possible, for each placement without one, and end those that fit none."""
        if not self.wanted:
            return
        with self._lock:
            free, self._waiting = self._waiting, []
            for placement in placements:
                fitting = next((spare for spare in free if spare.fits(placement)), None)
                if fitting is not None:
                    free.remove(fitting)
                    self._waiting.append(fitting)
                    continue
                with contextlib.suppress(OSError):
                    self._waiting.append(_start(placement))
            for spare in free:
                spare.end()

    def take(self, placement: Placement) -> subprocess.Popen[bytes] | None:
        """Let a waiting process become this worker. Return None if none is there that can."""
        with self._lock:
            for spare in [spare for spare in self._waiting if spare.fits(placement)]:
                self._waiting.remove(spare)
                if spare.begin(placement):
                    forget_helper(spare.process.pid)
                    return spare.process
                spare.end()
        return None

    def close(self) -> None:
        """End those that still wait."""
        with self._lock:
            while self._waiting:
                self._waiting.pop().end()


def _lasting(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name not in _LATER}


def _start(placement: Placement) -> _Spare:
    env = _lasting(placement.env)
    # It ends when the launcher closes its standard input, or dies.
    process = start_process(placement, {**env, WARM_VARIABLE: "1"}, stdin=subprocess.PIPE)
    note_helper(process.pid)
    return _Spare(process, placement.command, env, Path(os.getcwd()))


class WarmWorkers(Spares):
    """Processes with TensorFlow and Keras imported, of which each becomes a worker of one call.

    Use it in a ``with`` block, or end them with :meth:`close`. They end with the session in any case, and
    after `idle` seconds without a call; the next call starts them again.
    """

    #: Those of this session.
    current: ClassVar[WarmWorkers | None] = None

    def __init__(self, number: int, command: Sequence[str], idle: float) -> None:
        super().__init__()
        self.number = number
        self.command = tuple(command)
        self._idle = idle
        self._timer: threading.Timer | None = None

    def __repr__(self) -> str:
        with self._lock:
            waiting = sum(spare.process.poll() is None for spare in self._waiting)
        return f"<{self.number} warm workers{'' if waiting == self.number else f', of which {waiting} wait'}>"

    def prepare(self, placements: Iterable[Placement]) -> None:
        """Have as many processes as the session wants wait for a call with these workers."""
        known = [replace(placement, command=self.command) for placement in placements]
        if self is not WarmWorkers.current or not known:
            return
        super().prepare(known[index % len(known)] for index in range(self.number))
        with self._lock:
            self._stop_timer()
            self._timer = threading.Timer(self._idle, self._rest)
            self._timer.daemon = True
            self._timer.start()

    def refill(self, placements: Iterable[Placement]) -> None:
        """Have others wait in place of those that the last call took."""
        self.prepare(placements)

    def close(self) -> None:
        """End them. Later calls start new processes for their workers."""
        if self is WarmWorkers.current:
            WarmWorkers.current = None
        self._rest()

    def _rest(self) -> None:
        with self._lock:
            self._stop_timer()
        super().close()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def keep(workers: WarmWorkers | None) -> None:
    """Make these the warm workers of the session, in place of others; None ends those."""
    if WarmWorkers.current is not None:
        WarmWorkers.current.close()
    WarmWorkers.current = workers


atexit.register(keep, None)


def warm_workers_for(command: Sequence[str]) -> WarmWorkers | None:
    """Return the session's warm workers if they run this command."""
    workers = WarmWorkers.current
    return workers if workers and tuple(command[: len(workers.command)]) == workers.command else None


def number_of_warm_workers(script: str) -> int | None:
    """Return how many warm workers the session has for this script; None if there are none."""
    workers = WarmWorkers.current
    return workers.number if workers and workers.command[-1] == script else None

"""Find all processes of a job, and end them.

A job's processes are those that have its name in their environment, those in the sessions that were started
for it, and their descendants. This includes background processes of a worker that has died, and processes
that have overwritten their environment with a new title (setproctitle). A process that exists only to run a
job also adopts what leaves all of these.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path

import psutil

from ..environment import JOB_VARIABLE
from .interpreter import run_code, with_tfmuster_on_path
from .limits import cannot_start

#: Time between SIGTERM and SIGKILL, in seconds. TensorFlow catches SIGTERM and keeps running, so a job with
#: TensorFlow always takes this long to end.
GRACE_SECONDS = 2.0

#: How long to wait for killed processes to end, in seconds. A process in uninterruptible sleep can't be
#: killed.
KILL_SECONDS = 10.0

#: The sessions of each job: process id and birth of the process that was started with it.
_sessions: dict[str, dict[int, str]] = {}

#: Children of this process that belong to no job.
_helpers: set[int] = set()

#: Process ids of orphans that this process has adopted.
_adopted: set[int] = set()

#: Once this process adopts orphans: whether each of its children belongs to its job.
_adopts: list[bool] = []
_LINUX = sys.platform.startswith("linux")
_PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 36, 37


def note_session(job: str, pid: int, born: str) -> None:
    """Note that a process was started for a job, in a session of its own. ``born`` is its `birth`."""
    _sessions.setdefault(job, {})[pid] = born


def note_helper(pid: int) -> None:
    """Note that a child of this process belongs to no job."""
    _helpers.add(pid)


def forget_helper(pid: int) -> None:
    """Note that a helper has ended, or has become a process of the job."""
    _helpers.discard(pid)


def adopt_orphans(*, only_job: bool = False) -> None:
    """Make this process the parent of descendants whose parents end, on Linux.

    Call it in a process that exists only to run a job. With ``only_job``, it starts nothing but the job and
    helpers. Else it may also have children of its own, such as a driver of Spark.
    """
    if _LINUX and ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0:
        _adopts[:] = [only_job]


@contextlib.contextmanager
def adopting_orphans() -> Iterator[None]:
    """Adopt orphans within the block: in a session that runs a job, and other things before and after it."""
    before = ctypes.c_int(1)
    if _LINUX:
        ctypes.CDLL(None).prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(before), 0, 0, 0)
    if before.value:
        # This process adopts anyway, for this job or for a reason of its own.
        yield
        return
    adopt_orphans()
    try:
        yield
    finally:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        _adopts.clear()
        _adopted.clear()


def look_at_orphans() -> None:
    """Note which children are adopted. Release those that have ended: nobody asks for their exit codes."""
    for child in psutil.Process().children() if _adopts else ():
        with contextlib.suppress(psutil.Error, OSError):
            if child.status() != psutil.STATUS_ZOMBIE:
                # What this process has started has some of its variables.
                if not child.environ().items() & os.environ.items():
                    _adopted.add(child.pid)
            elif child.pid in _adopted:
                os.waitpid(child.pid, os.WNOHANG)
                _adopted.discard(child.pid)


def _orphans() -> set[psutil.Process]:
    """Return adopted processes that belong to the job, and their descendants."""
    orphans: set[psutil.Process] = set()
    look_at_orphans()
    for child in psutil.Process().children() if _adopts else ():
        with contextlib.suppress(psutil.Error):
            if child.pid not in _helpers and (_adopts[0] or child.pid in _adopted):
                orphans.update((child, *child.children(recursive=True)))
    return orphans


def job_processes(job: str) -> set[psutil.Process]:
    """Find every living process of a job, except this one."""
    sessions = {pid for pid, born in _sessions.get(job, {}).items() if _still_names_session(pid, born)}
    processes = _orphans()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process not in processes and (
                os.getsid(process.pid) in sessions or process.environ().get(JOB_VARIABLE) == job
            ):
                processes.update((process, *process.children(recursive=True)))
    others = {os.getpid(), *_helpers}
    return {process for process in processes if process.pid not in others and _alive(process)}


def _still_names_session(pid: int, born: str) -> bool:
    """Return whether a process id is still that of the job's session, and not of a later process."""
    try:
        return birth(psutil.Process(pid)) == born
    except psutil.Error:
        return True  # the kernel does not reuse the number while the session has processes


def end_job(job: str, *, grace: float = GRACE_SECONDS, wait: Callable[[float], None] = time.sleep) -> None:
    """End every process of a job by SIGTERM, and after `grace` seconds by SIGKILL. `wait` sleeps."""
    asked: set[psutil.Process] = set()
    kill_from = time.monotonic() + grace
    for pause in _pauses(grace + KILL_SECONDS):
        remaining = job_processes(job)
        if not remaining:
            return
        for process in remaining:
            with contextlib.suppress(psutil.Error):
                if time.monotonic() >= kill_from:
                    process.kill()
                elif process not in asked:
                    process.terminate()
        asked |= remaining
        wait(pause)


def birth(process: psutil.Process) -> str:
    """Return when a process was started, in a way that no step of the machine's clock changes.

    With its process id, this tells the process from another one that gets its number later. Raises
    psutil.Error if the process has ended.
    """
    try:
        # Field 22: ticks since the machine was started, see proc(5). The name before it may have blanks.
        ticks = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[19]
        return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {ticks}"
    except OSError:  # not Linux, or it has ended
        return str(process.create_time())


def stopped_trees(roots: Collection[int]) -> dict[int, int]:
    """Return the processes of `roots` that SIGSTOP has stopped, each with the process id that is stopped.

    A stopped descendant counts because the worker may be the child of a shell. A process under a debugger
    does not count.
    """
    parents: dict[int, int] = {}
    stopped = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error), process.oneshot():
            parents[process.pid] = process.ppid()
            if process.status() == psutil.STATUS_STOPPED:
                stopped.append(process.pid)
    trees: dict[int, int] = {}
    for pid in stopped:
        ancestor = pid
        while ancestor not in roots and ancestor in parents:
            ancestor = parents[ancestor]
        if ancestor in roots:
            trees.setdefault(ancestor, pid)
    return trees


def _alive(process: psutil.Process) -> bool:
    # psutil's `wait` would reap child processes, and their exit codes would be lost.
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _pauses(seconds: float) -> Iterator[float]:
    pause, end = 0.02, time.monotonic() + seconds
    while time.monotonic() < end:
        yield pause
        pause = min(0.2, pause * 1.5)


# The guard ends a job if its launcher is killed. It reads from a pipe which sessions the job has; the kernel
# closes the pipe however the launcher dies. It imports nothing before that, because the workers need the
# cores while they start.
_WAIT = """
import sys
sessions = sys.stdin.read().splitlines()
from tfmuster.system.processes import end_orphans
end_orphans(sessions, *sys.argv[1:])
"""


def start_guard(job: str, folder: Path | None = None) -> subprocess.Popen[bytes]:
    """Start the guard of a job and of a temporary folder. Raises LaunchError (reason ``start``)."""
    try:
        guard = subprocess.Popen(
            [*run_code(_WAIT), job, *([] if folder is None else [str(folder)])],
            env=with_tfmuster_on_path(os.environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C in the terminal does not reach it
        )
    except OSError as error:
        raise cannot_start("The guard of the job", error) from error
    note_helper(guard.pid)
    return guard


def guard_session(guard: subprocess.Popen[bytes], job: str, pid: int) -> None:
    """Note a process that was started for a job in a session of its own, here and in the job's guard."""
    with contextlib.suppress(psutil.Error):  # it has ended
        born = birth(psutil.Process(pid))
        note_session(job, pid, born)
        assert guard.stdin is not None
        # A guard that was killed guards nothing any more, and the job continues.
        with contextlib.suppress(OSError):
            guard.stdin.write(f"{pid} {born}\n".encode())
            guard.stdin.flush()


def dismiss_guard(guard: subprocess.Popen[bytes]) -> None:
    """End the guard before the launcher ends, so that it does not end the job."""
    guard.kill()
    guard.wait()
    assert guard.stdin is not None
    with contextlib.suppress(OSError):
        guard.stdin.close()


def end_orphans(sessions: Iterable[str], job: str, *folders: str) -> None:
    """End the job of a killed launcher, and remove `folders`. :func:`guard_session` wrote the sessions."""
    for session in sessions:
        pid, born = session.split(maxsplit=1)
        note_session(job, int(pid), born)
    end_job(job, grace=1.0)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)

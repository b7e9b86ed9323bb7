"""Write and read the stacks of a run's workers, in ``stacks/worker-0.txt`` of the run directory.

Each worker writes its own file when the job stalls, or when the file ``stacks/wanted`` is newer than its own.
The thread that writes is not the one that waits, so it also works inside TensorFlow.

Before version 1.39, reticulate holds Python's lock while R code runs that Python has called, such as a
callback. Such a worker can't answer. So in the Python inside R, a thread renews a timer once a second, and
when it can't, :mod:`faulthandler` writes the stack from a thread that needs no lock. The file is
``states/worker-0.busy`` in the run directory: what the worker does, and behind `_MARK` the stack. R itself
can't be asked while its code runs.
"""

from __future__ import annotations

import contextlib
import faulthandler
import linecache
import os
import re
import sys
import threading
import time
import traceback
from collections.abc import Iterable
from datetime import datetime, timezone
from pathlib import Path
from typing import Final

from ...cluster.tf_config import current_task
from ...errors import TfmusterError
from ...system.activity import ACTIVITY, place_text
from ...system.regular_files import read_regular
from ...system.replace import replacing_file
from ...system.say import say
from ..record.layout import STACKS, STATES, file_stem, own_run_dir, task_of, utc_now

_WANTED: Final = "wanted"
#: How long workers may take to write their stacks, in seconds.
_WRITE_SECONDS: Final = 5.0

#: After this many seconds in which no Python thread has run, the stack of a worker is written.
BUSY_SECONDS: Final = 3.0
_BEAT_SECONDS: Final = 1.0
#: Bytes of the largest file of stacks that is read.
_MOST_BYTES: Final = 64 << 20
#: How the text of faulthandler begins.
_MARK: Final = "Timeout ("
_FRAME: Final = re.compile(r'  File "(.*)", line (\d+) in (.*)')

#: When the request was made that this process has answered. One of an earlier attempt needs no answer.
_answered: list[float] = [time.time() - 10.0]
_watched: list[BusyWatch] = []


def own_stacks(task: str) -> str:
    """Describe where every thread of this process is, the main thread first, and R's calls if known."""
    main = threading.main_thread().ident
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = sorted(sys._current_frames().items(), key=lambda item: item[0] != main)
    threads = (
        (
            "main thread" if ident == main else f"thread {names.get(ident, ident)}",
            "".join(traceback.format_stack(frame)).rstrip().splitlines(),
        )
        for ident, frame in frames
    )
    title = f"{task}, pid {os.getpid()}, {utc_now()}: {place_text(ACTIVITY.report())}"
    return _text([title], threads, ACTIVITY.r_calls or "")


def _text(title: list[str], threads: Iterable[tuple[str, list[str]]], r_calls: str) -> str:
    lines = title
    for name, frames in threads:
        lines += ["", f"Python, {name} (most recent call last):", *frames]
    if r_calls.strip():
        lines += ["", "R, when it last called TensorFlow:", *(f"  {call}" for call in r_calls.splitlines())]
    return "\n".join(lines) + "\n"


def write_own_stacks(task: str) -> Path | None:
    """Write this worker's stacks to its file, or to stderr outside of a launched job. Return the file."""
    run_dir, text = own_run_dir(), own_stacks(task)
    if run_dir is None:
        say(f"tfmuster: stacks of {text}")
        return None
    path = run_dir / STACKS / f"{file_stem(task)}.txt"
    with contextlib.suppress(OSError):
        path.parent.mkdir(exist_ok=True)
        with replacing_file(path) as file:
            file.write(text.encode())
    return path


def answer_request() -> None:
    """Write this worker's stacks if someone has asked for them. Call it about once a second."""
    if (run_dir := own_run_dir()) is None:
        return
    with contextlib.suppress(OSError, TfmusterError):
        asked = (run_dir / STACKS / _WANTED).stat().st_mtime
        task = current_task() if asked > _answered[0] else None
        if task is not None:
            _answered[0] = asked
            write_own_stacks(task.name)


def ask_for_stacks(run_path: Path, tasks: Iterable[str], *, running: bool) -> dict[str, str]:
    """Ask the workers of a run for their stacks, and return the texts by task.

    A run that has ended returns those that its workers wrote when it stalled. A worker that does not answer
    within some seconds is left out, unless R is busy there.
    """
    folder = run_path / STACKS
    asked = 0.0
    if running:
        folder.mkdir(exist_ok=True)
        wanted = folder / _WANTED
        wanted.write_text("")
        asked = wanted.stat().st_mtime
    deadline = time.monotonic() + (_WRITE_SECONDS if running else 0.0)
    while True:
        texts = {
            task_of(path.stem): _text_of(path)
            for path in sorted(folder.glob("*-*.txt"))
            if path.stat().st_mtime >= asked
        }
        busy = read_busy_stacks(run_path) if running else {}
        if time.monotonic() >= deadline or set(tasks) <= {*texts, *busy}:
            return dict(sorted({**busy, **texts}.items()))
        time.sleep(0.1)


def write_busy_stacks(task: str) -> None:
    """Have the stack of this process written while no Python thread can run. Outside of a run, do nothing."""
    if (run_dir := own_run_dir()) is None or _watched:
        return
    with contextlib.suppress(OSError):
        watch = BusyWatch(task, run_dir / STATES / f"{file_stem(task)}.busy")
        _watched.append(watch)
        ACTIVITY.on_call = watch.begin
        threading.Thread(target=watch.renew, name="tfmuster-busy", daemon=True).start()


class BusyWatch:
    """The file that has the stack of this process while no Python thread can run."""

    def __init__(self, task: str, path: Path) -> None:
        path.parent.mkdir(exist_ok=True)
        self._task = task
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o666)
        self._length = 0
        self._lock = threading.Lock()
        self.begin()

    def begin(self) -> None:
        """Write what this process does, without an earlier stack."""
        call = ACTIVITY.place().get("call")
        doing = f"in {call}" if call else "outside of fit, evaluate, and predict"
        text = f"{self._task}, pid {os.getpid()}, {{}}: {doing}\n{ACTIVITY.r_calls}\n".encode()
        with self._lock, contextlib.suppress(OSError):
            os.ftruncate(self._file, 0)
            os.lseek(self._file, 0, os.SEEK_SET)
            self._length = os.write(self._file, text)

    def renew(self) -> None:
        """Put the stack off, once a second."""
        while True:
            with contextlib.suppress(OSError):
                if os.fstat(self._file).st_size != self._length:
                    self.begin()
            faulthandler.dump_traceback_later(BUSY_SECONDS, file=self._file)
            time.sleep(_BEAT_SECONDS)


def read_busy_stacks(run_dir: Path) -> dict[str, str]:
    """Return the stacks of the tasks in which no Python thread can run, by the task's name."""
    texts = {}
    for path in sorted(run_dir.joinpath(STATES).glob("*.busy")):
        with contextlib.suppress(OSError):
            head, mark, stack = _text_of(path).partition(_MARK)
            if mark:
                since = datetime.fromtimestamp(path.stat().st_mtime, timezone.utc)
                texts[task_of(path.stem)] = _busy_text(head, stack, since.isoformat(timespec="milliseconds"))
    return texts


def _text_of(path: Path) -> str:
    return read_regular(path, _MOST_BYTES).decode(errors="replace")


def _busy_text(head: str, stack: str, since: str) -> str:
    title, _, r_calls = head.strip().partition("\n")
    threads = []
    for block in re.split(r"^(?=Thread |Current thread )", stack, flags=re.M)[1:]:
        lines: list[str] = []
        for match in filter(None, map(_FRAME.match, reversed(block.splitlines()[1:]))):
            file, line, function = match.groups()
            source = linecache.getline(file, int(line)).strip()
            lines += [f'  File "{file}", line {line}, in {function}', *([f"    {source}"] if source else [])]
        threads.append(lines)
    about = [
        title.replace("{}", since, 1),
        f"R is busy: no Python thread had run for {BUSY_SECONDS:.0f} s then, and none has run since.",
        "R's own calls are not known until its code returns to Python.",
    ]
    # The main thread is the oldest, and so the last.
    names = ["main thread", *(f"thread {number}" for number in range(1, len(threads)))]
    return _text(about, zip(names, reversed(threads), strict=False), r_calls)


def keep_busy_stacks(run_dir: Path) -> None:
    """Put these stacks beside those of the other workers, if there are any.

    Call it while the processes still run: one that is told to end may leave R, and then forgets its stack.
    """
    folder = run_dir / STACKS
    with contextlib.suppress(OSError):
        for task, text in read_busy_stacks(run_dir).items() if folder.is_dir() else ():
            (folder / f"{file_stem(task)}.txt").write_text(text, encoding="utf-8")


def forget_busy_stacks(run_dir: Path) -> None:
    """Remove the files of processes that have ended."""
    with contextlib.suppress(OSError):
        for path in run_dir.joinpath(STATES).glob("*.busy"):
            path.unlink()

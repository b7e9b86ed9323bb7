"""Keep the stack of a worker in which no Python thread can run, because R is busy.

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
import threading
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Final

from ...environment import RUN_DIR_VARIABLE
from ...system.activity import ACTIVITY
from ..record.layout import STACKS, STATES, file_stem, task_of

#: After this many seconds in which no Python thread has run, the stack is written.
BUSY_SECONDS: Final = 3.0
_BEAT_SECONDS: Final = 1.0
#: How the text of faulthandler begins.
_MARK: Final = "Timeout ("
_FRAME: Final = re.compile(r'  File "(.*)", line (\d+) in (.*)')

_watched: list[_Watch] = []


def watch_busy_python(task: str) -> None:
    """Have the stack of this process written while no Python thread can run. Outside of a run, do nothing."""
    folder = os.environ.get(RUN_DIR_VARIABLE)
    if not folder or _watched:
        return
    with contextlib.suppress(OSError):
        watch = _Watch(task, Path(folder, STATES, f"{file_stem(task)}.busy"))
        _watched.append(watch)
        ACTIVITY.on_call = watch.begin
        threading.Thread(target=watch.renew, name="tfmuster-busy", daemon=True).start()


class _Watch:
    """The file of a process."""

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
            head, mark, stack = path.read_text(encoding="utf-8", errors="replace").partition(_MARK)
            if mark:
                since = datetime.fromtimestamp(path.stat().st_mtime, timezone.utc)
                texts[task_of(path.stem)] = _text(head, stack, since.isoformat(timespec="milliseconds"))
    return texts


def _text(head: str, stack: str, since: str) -> str:
    title, _, r_calls = head.strip().partition("\n")
    lines = [
        title.replace("{}", since, 1),
        f"R is busy: no Python thread had run for {BUSY_SECONDS:.0f} s then, and none has run since.",
        "R's own calls are not known until its code returns to Python.",
    ]
    threads = [
        block.splitlines()[1:] for block in re.split(r"^(?=Thread |Current thread )", stack, flags=re.M)[1:]
    ]
    # The main thread is the oldest, and so the last.
    for number, frames in enumerate(reversed(threads)):
        name = "main thread" if number == 0 else f"thread {number}"
        lines += ["", f"Python, {name} (most recent call last):"]
        for found in filter(None, map(_FRAME.match, reversed(frames))):
            file, line, function = found.groups()
            source = linecache.getline(file, int(line)).strip()
            lines += [f'  File "{file}", line {line}, in {function}', *([f"    {source}"] if source else [])]
    if r_calls.strip():
        lines += ["", "R, when it last called TensorFlow:", *(f"  {call}" for call in r_calls.splitlines())]
    return "\n".join(lines) + "\n"


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

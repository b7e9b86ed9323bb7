"""Write and read the stacks of a run's workers, in ``stacks/worker-0.txt`` of the run directory.

Each worker writes its own file when the job stalls, or when the file ``stacks/wanted`` is newer than its own.
The thread that writes is not the one that waits, so it also works inside TensorFlow.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ...cluster.tf_config import current_task
from ...environment import RUN_DIR_VARIABLE
from ...errors import TfmusterError
from ...system.activity import ACTIVITY, place_text
from ...system.replace import replacing_file
from ...system.say import say
from ..record.layout import STACKS, file_stem, task_of, utc_now
from .busy_stacks import read_busy_stacks

_WANTED: Final = "wanted"
#: How long workers may take to write their stacks, in seconds.
_WRITE_SECONDS: Final = 5.0

#: When the request was made that this process has answered. One of an earlier attempt needs no answer.
_answered: list[float] = [time.time() - 10.0]


def own_stacks(task: str) -> str:
    """Describe where every thread of this process is, the main thread first, and R's calls if known."""
    main = threading.main_thread().ident
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = sorted(sys._current_frames().items(), key=lambda item: item[0] != main)
    text = [f"{task}, pid {os.getpid()}, {utc_now()}: {place_text(ACTIVITY.report())}"]
    for ident, frame in frames:
        name = "main thread" if ident == main else f"thread {names.get(ident, ident)}"
        text += ["", f"Python, {name} (most recent call last):", *_lines(frame)]
    if calls := ACTIVITY.r_calls:
        text += ["", "R, when it last called TensorFlow:", *(f"  {call}" for call in calls.splitlines())]
    return "\n".join(text) + "\n"


def _lines(frame: Any) -> list[str]:
    return "".join(traceback.format_stack(frame)).rstrip().splitlines()


def write_own_stacks(task: str) -> Path | None:
    """Write this worker's stacks to its file, or to stderr outside of a launched job. Return the file."""
    folder = os.environ.get(RUN_DIR_VARIABLE)
    text = own_stacks(task)
    if not folder:
        say(f"tfmuster: stacks of {text}")
        return None
    path = Path(folder, STACKS, f"{file_stem(task)}.txt")
    with contextlib.suppress(OSError):
        path.parent.mkdir(exist_ok=True)
        with replacing_file(path) as file:
            file.write(text.encode())
    return path


def answer_request() -> None:
    """Write this worker's stacks if someone has asked for them. Call it about once a second."""
    folder = os.environ.get(RUN_DIR_VARIABLE)
    if not folder:
        return
    with contextlib.suppress(OSError, TfmusterError):
        asked = Path(folder, STACKS, _WANTED).stat().st_mtime
        task = current_task() if asked > _answered[0] else None
        if task is not None:
            _answered[0] = asked
            write_own_stacks(task.name)


def ask_for_stacks(run_path: Path, tasks: Mapping[str, Any], *, running: bool) -> dict[str, str]:
    """Ask the workers of a run for their stacks, and return the texts by task.

    A run that has ended returns those that its workers wrote when it stalled. A worker that does not answer
    within some seconds is left out, unless R is busy there (:mod:`.busy_stacks`).
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
            task_of(path.stem): path.read_text(encoding="utf-8", errors="replace")
            for path in sorted(folder.glob("*-*.txt"))
            if path.stat().st_mtime >= asked
        }
        busy = read_busy_stacks(run_path) if running else {}
        if time.monotonic() >= deadline or set(tasks) <= {*texts, *busy}:
            return dict(sorted({**busy, **texts}.items()))
        time.sleep(0.1)

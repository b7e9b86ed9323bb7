"""Follow the logs of a run."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator
from pathlib import Path

from ...system.regular_files import open_regular
from ...system.terminal_text import Lines
from ..run import Run
from .fold import WINDOW_SECONDS, Fold

#: Bytes that are read of a log before the next one, so that equal lines of several tasks meet.
_BLOCK = 32 * 1024


def log_lines(
    run: Run, task: str | None = None, *, lines: int | None = None, all_output: bool = False
) -> list[str]:
    """Return the lines that `each_log_line` yields."""
    return list(each_log_line(run, task, lines=lines, all_output=all_output))


def each_log_line(
    run: Run, task: str | None = None, *, lines: int | None = None, all_output: bool = False
) -> Iterator[str]:
    """Yield the output of a run's tasks as a terminal would show it, each line after the task's name.

    Lines that all tasks print alike are yielded once (see :mod:`.fold`) unless `all_output`.
    """
    if lines is None:
        yield from Tail(run, task, seconds=math.inf, all_output=all_output).each_new_line(last=True)
        return
    ends = {name: cut_lines(text) for name, text in run.logs(task, lines=lines).items()}
    yield from folded(ends, all_output=all_output)


def cut_lines(text: str) -> list[str]:
    """Return the lines of a log's text as a terminal would show them."""
    cut = Lines()
    return [*cut.feed(text.encode()), *cut.end()]


def folded(lines: dict[str, list[str]], *, all_output: bool = False) -> list[str]:
    """Return the lines of all tasks, those that they print alike once."""
    fold = Fold(lines, seconds=math.inf, all_output=all_output)
    for task, of_task in lines.items():
        fold.add(task, of_task)
    return fold.due(last=True)


def follow_lines(
    run: Run, task: str | None = None, *, every: float = 0.2, all_output: bool = False
) -> Iterator[str]:
    """Yield the lines of a run as they are written, until the run has ended; look each ``every`` seconds."""
    tail = Tail(run, task, all_output=all_output)
    unfinished = True
    while unfinished:
        unfinished = tail.unfinished()
        yield from tail.each_new_line(last=not unfinished)
        if unfinished:
            time.sleep(every)


class Tail:
    """Read the output of a run, or of one task such as ``"worker 0"``, line by line as it is written.

    A line waits `seconds` for the same line of other tasks, unless `all_output`.
    """

    def __init__(
        self,
        run: Run,
        task: str | None = None,
        *,
        seconds: float = WINDOW_SECONDS,
        all_output: bool = False,
    ) -> None:
        run.logs(task, lines=0)  # raises the error for a task that the run does not have
        self._run, self._task = run, task
        self._offsets: dict[str, int] = {}
        self._cuts: dict[str, Lines] = {}
        self._encoding = run.encoding
        self._fold = Fold(seconds=seconds, all_output=all_output)
        self._all_output = all_output

    def unfinished(self) -> bool:
        """Return whether there may be more lines. Ask before you read, or you may miss the last ones."""
        return self._run.goes_on

    def new_lines(self, *, last: bool = False) -> list[str]:
        """Return the lines written since the last call; with `last`, also an incomplete line."""
        return list(self.each_new_line(last=last))

    def each_new_line(self, *, last: bool = False) -> Iterator[str]:
        """Yield what `new_lines` returns, with only a part of the output in memory at a time."""
        paths = {name: path for name, path in self._run.log_paths().items() if self._task in (None, name)}
        self._fold.watch(paths)
        reads = [self._reads(name, path, last=last) for name, path in paths.items()]
        for _ in itertools.chain(*reads) if self._all_output else itertools.zip_longest(*reads):
            # However long it takes to read what is there.
            yield from self._fold.due(wait=True)
        yield from self._fold.due(last=last)

    def _reads(self, name: str, path: Path, *, last: bool) -> Iterator[None]:
        """Read a log to its present end, a block in each step."""
        cut = self._cuts.setdefault(name, Lines(self._encoding))
        while data := self._next_block(name, path):
            self._fold.add(name, cut.feed(data))
            yield
        if last:
            self._fold.add(name, cut.end())
            self._fold.end(name)

    def _next_block(self, name: str, path: Path) -> bytes:
        # Not all logs are open at the same time, because a job may have more tasks than that.
        with open_regular(path) as file:
            file.seek(self._offsets.get(name, 0))
            data = file.read(_BLOCK)
            self._offsets[name] = file.tell()
        return data

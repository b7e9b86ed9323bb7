"""Follow the logs of a run."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from ...system.regular_files import open_regular
from ...system.terminal_text import Lines, visible
from ..record.log_text import BLOCK
from ..run import Run


def log_lines(run: Run, task: str | None = None, *, lines: int | None = None) -> list[str]:
    """Return the lines that `each_log_line` yields."""
    return list(each_log_line(run, task, lines=lines))


def each_log_line(run: Run, task: str | None = None, *, lines: int | None = None) -> Iterator[str]:
    """Yield the output of a run's tasks as a terminal would show it, each line after the task's name."""
    tail = Tail(run, task)
    if lines is None:
        yield from tail.each_new_line(last=True)
        return
    for name, text in run.logs(task, lines=lines).items():
        cut = Lines()
        yield from tail.named(name, [*cut.feed(text.encode()), *cut.end()])


def follow_lines(run: Run, task: str | None = None, *, every: float = 0.2) -> Iterator[str]:
    """Yield the lines of a run as they are written, until the run has ended; look each ``every`` seconds."""
    tail = Tail(run, task)
    unfinished = True
    while unfinished:
        unfinished = tail.unfinished()
        yield from tail.each_new_line(last=not unfinished)
        if unfinished:
            time.sleep(every)


class Tail:
    """Read the output of a run, or of one task such as ``"worker 0"``, line by line as it is written."""

    def __init__(self, run: Run, task: str | None = None) -> None:
        run.logs(task, lines=0)  # raises the error for a task that the run does not have
        self._run, self._task = run, task
        self._offsets: dict[str, int] = {}
        self._cuts: dict[str, Lines] = {}
        self._encoding = run.encoding

    def unfinished(self) -> bool:
        """Return whether there may be more lines. Ask before you read, or you may miss the last ones."""
        return self._run.goes_on

    def new_lines(self, *, last: bool = False) -> list[str]:
        """Return the lines written since the last call; with `last`, also an incomplete line."""
        return list(self.each_new_line(last=last))

    def each_new_line(self, *, last: bool = False) -> Iterator[str]:
        """Yield what `new_lines` returns, with only a part of the output in memory at a time."""
        for name, path in self._run.log_paths().items():
            if self._task in (None, name):
                cut = self._cuts.setdefault(name, Lines(self._encoding))
                with open_regular(path) as file:
                    file.seek(self._offsets.get(name, 0))
                    while data := file.read(BLOCK):
                        self._offsets[name] = file.tell()
                        yield from self.named(name, cut.feed(data))
                if last:
                    yield from self.named(name, cut.end())

    def named(self, name: str, lines: Iterable[str]) -> list[str]:
        """Prefix lines with their task's name, as far as a terminal may show it."""
        width = max((len(visible(task)) for task in self._run.log_paths()), default=0)
        return [f"{visible(name):<{width}} | {line}" for line in lines]

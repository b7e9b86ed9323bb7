"""Follow the logs of a run."""

from __future__ import annotations

import time
from collections.abc import Iterator

from .layout import UNFINISHED
from .run import Run
from .terminal_text import Lines


def log_lines(run: Run, task: str | None = None, *, lines: int | None = None) -> list[str]:
    """Return the output of a run's tasks as a terminal would show it, each line after the task's name."""
    tail = Tail(run, task)
    shown = []
    for name, text in run.logs(task, lines=lines).items():
        cut = Lines()
        shown += [tail.named(name, line) for line in [*cut.feed(text.encode()), *cut.end()]]
    return shown


def follow_lines(run: Run, task: str | None = None, *, every: float = 0.2) -> Iterator[str]:
    """Yield the lines of a run as they are written, until the run has ended; look each ``every`` seconds."""
    tail = Tail(run, task)
    unfinished = True
    while unfinished:
        unfinished = tail.unfinished()
        yield from tail.new_lines(last=not unfinished)
        if unfinished:
            time.sleep(every)


class Tail:
    """Read the output of a run line by line, as it is written.

    Parameters
    ----------
    run : Run
        The run.
    task : str, optional
        Read only this task's output, such as ``"worker 0"``.

    Raises
    ------
    TfmusterError
        If the run has no such task.
    """

    def __init__(self, run: Run, task: str | None = None) -> None:
        run.logs(task, lines=0)
        self._run, self._task = run, task
        self._offsets: dict[str, int] = {}
        self._cuts: dict[str, Lines] = {}

    def unfinished(self) -> bool:
        """Whether there may be more lines. Ask before you read, or you may miss the last ones."""
        return self._run.status()["state"] in UNFINISHED

    def new_lines(self, *, last: bool = False) -> list[str]:
        """Return the lines written since the last call; with `last`, also an incomplete line."""
        shown = []
        for name, path in self._run.log_paths().items():
            if self._task in (None, name):
                with path.open("rb") as file:
                    file.seek(self._offsets.get(name, 0))
                    data = file.read()
                self._offsets[name] = self._offsets.get(name, 0) + len(data)
                cut = self._cuts.setdefault(name, Lines())
                lines = cut.feed(data) + (cut.end() if last else [])
                shown += [self.named(name, line) for line in lines]
        return shown

    def named(self, name: str, line: str) -> str:
        """Prefix a line with its task's name."""
        width = max(map(len, self._run.log_paths()), default=0)
        return f"{name:<{width}} | {line}"

"""Show lines that several tasks print alike once, and all other lines with the task's name.

The lines of each task stay in order. Lines of different tasks have no order, so a line waits, for a limited
time and in limited memory, for the same line of the other tasks.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ...system.terminal_text import visible, without_time

#: How long a line that is shown while it is written waits for the same line of other tasks, in seconds.
WINDOW_SECONDS = 1.0
#: How many lines wait at most, and how many characters they have.
_MOST_LINES, _MOST_CHARACTERS = 1000, 1_000_000
#: How many tasks are named before a line that not all of them have printed.
_MOST_NAMES = 3


@dataclass(eq=False)
class _Line:
    """A line that waits, with the tasks that have printed it."""

    text: str
    key: str
    since: float
    tasks: list[str] = field(default_factory=list)
    #: The line before it, of each of these tasks that has one waiting.
    before: list[_Line] = field(default_factory=list)


@dataclass(eq=False)
class _Alike:
    """The waiting lines of one text, and for each task the first of them that it may still join."""

    lines: list[_Line] = field(default_factory=list)
    first: dict[str, int] = field(default_factory=dict)


class Fold:
    """Turns the lines of tasks into lines to show; with `all_output`, each of them at once.

    `tasks` are all tasks that print. A line waits `seconds` for other tasks.
    """

    def __init__(
        self, tasks: Iterable[str] = (), *, seconds: float = WINDOW_SECONDS, all_output: bool = False
    ) -> None:
        self._tasks: list[str] = []
        self._width = 0
        self.watch(tasks)
        self._seconds = seconds
        self._all_output = all_output
        self._ended: set[str] = set()
        #: The waiting lines of each task. A line of several tasks is in the queue of each.
        self._queues: dict[str, deque[_Line]] = {}
        self._alike: dict[str, _Alike] = {}
        self._lines = self._characters = 0
        self._shown: list[str] = []
        #: The task whose lines are shown, so that lines of several tasks are not interleaved.
        self._current = ""

    def watch(self, tasks: Iterable[str]) -> None:
        """Add tasks that print."""
        self._tasks = [*dict.fromkeys([*self._tasks, *tasks])]
        self._width = max((len(visible(task)) for task in self._tasks), default=0)

    def add(self, task: str, lines: Iterable[str]) -> None:
        """Add lines that a task has printed, which `due` returns in their time."""
        now = time.monotonic()

        def has_all(line: _Line) -> bool:
            return len(line.tasks) == len(self._tasks)

        for text in lines:
            if self._all_output:
                self._shown.append(self._named([task], text))
                continue
            line = self._joined(task, text, now)
            if has_all(line):
                self._show(has_all)
            while self._lines > _MOST_LINES or self._characters > _MOST_CHARACTERS:
                self._take(self._longest_waiting())

    def end(self, task: str) -> None:
        """Wait no longer for lines of a task."""
        self._ended.add(task)

    def due(self, *, last: bool = False, wait: bool = False) -> list[str]:
        """Return the lines to show now: all with `last`; with `wait`, none that others may still print."""
        latest = math.inf if last else -math.inf if wait else time.monotonic() - self._seconds
        passed = {task: self._before_last(task) for task in self._tasks if task not in self._ended}

        def is_due(line: _Line) -> bool:
            return line.since <= latest or all(
                task in line.tasks or line in before for task, before in passed.items()
            )

        self._show(is_due)
        shown, self._shown = self._shown, []
        return shown

    def _joined(self, task: str, text: str, now: float) -> _Line:
        """Return the line of other tasks that this one repeats, else a new one, as the task's last."""
        key = without_time(text)
        queue, alike = self._queues.setdefault(task, deque()), self._alike.setdefault(key, _Alike())
        at = alike.first.get(task, 0)
        if at < len(alike.lines):
            # A line that the task's last one must follow can't come after it, too.
            before = self._before_last(task)
            while at < len(alike.lines) and alike.lines[at] in before:
                at += 1
        if at == len(alike.lines):
            alike.lines.append(_Line(text, key, now))
            self._lines += 1
            self._characters += len(text)
        alike.first[task] = at + 1
        line = alike.lines[at]
        line.tasks.append(task)
        if queue:
            line.before.append(queue[-1])
        queue.append(line)
        return line

    def _before_last(self, task: str) -> set[_Line]:
        """Return the lines that must be shown before the last one of a task, and that one."""
        found: set[_Line] = set()
        to_visit = list(self._queues.get(task, ()))[-1:]
        while to_visit:
            line = to_visit.pop()
            if line not in found:
                found.add(line)
                to_visit += line.before
        return found

    def _show(self, is_due: Callable[[_Line], bool]) -> None:
        """Show lines that are due, each after those that its tasks have printed before it."""
        while (line := next(filter(is_due, self._firsts()), None)) is not None:
            self._take(line)

    def _firsts(self) -> Iterator[_Line]:
        """Yield the lines before which none must be shown, with that of the current task first."""
        for task in sorted(self._queues, key=lambda task: task != self._current):
            if (queue := self._queues[task]) and self._is_first(queue[0]):
                yield queue[0]

    def _is_first(self, line: _Line) -> bool:
        return all(self._queues[task][0] is line for task in line.tasks)

    def _longest_waiting(self) -> _Line:
        """Return a line that can be shown, of the task with the most lines or of one that it waits for."""
        line = max(self._queues.values(), key=len)[0]
        while not self._is_first(line):
            line = next(first for task in line.tasks if (first := self._queues[task][0]) is not line)
        return line

    def _take(self, line: _Line) -> None:
        """Show a line, which no longer waits."""
        self._shown.append(self._named(line.tasks, line.text))
        self._current = line.tasks[0]
        for task in line.tasks:
            self._queues[task].popleft()
        line.before.clear()
        self._lines -= 1
        self._characters -= len(line.text)
        alike = self._alike[line.key]
        at = alike.lines.index(line)
        del alike.lines[at]
        alike.first = {task: first - (first > at) for task, first in alike.first.items()}
        if not alike.lines:
            del self._alike[line.key]

    def _named(self, tasks: Sequence[str], text: str) -> str:
        """Prefix a line with the names of its tasks, as far as a terminal may show them."""
        if len(tasks) == 1:
            return f"{visible(tasks[0]):<{self._width}} | {text}"
        every = len(self._tasks)
        if len(tasks) < every and len(tasks) <= _MOST_NAMES:
            return f"[{', '.join(map(visible, sorted(tasks, key=self._tasks.index)))}] | {text}"
        number = f"{len(tasks)}" if len(tasks) == every else f"{len(tasks)} of {every}"
        only_workers = all(task.startswith("worker ") for task in self._tasks)
        return f"[{number} {'workers' if only_workers else 'tasks'}] | {text}"

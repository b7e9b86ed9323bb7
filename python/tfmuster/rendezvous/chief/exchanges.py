"""Collect the documents of an exchange on the chief, and compare them (see :mod:`.agreement`).

A task may send a piece of a value with its document, which all tasks get (see :mod:`.values`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from ...net.channel import Message
from ...system.terminal_text import bounded_text

#: Limits of an answer: names that differ, values of a name, tasks of a value, characters of a value.
MAX_DIFFERENCES: Final = 8
MAX_VALUES: Final = 4
MAX_TASKS: Final = 8
MAX_VALUE: Final = 300
#: Answers that the chief keeps for tasks that come after a time limit.
_MAX_KEPT: Final = 16

Answers = list[tuple[str, Message]]


@dataclass
class Exchange:
    """An exchange that waits for tasks, on the chief."""

    number: int
    #: The tasks that have come, and what each of them wants to agree about.
    abouts: dict[str, str] = field(default_factory=dict)
    #: When the exchange ends without the absent tasks (monotonic clock, seconds).
    deadline: float = float("inf")
    entries: dict[str, dict[bytes, list[str]]] = field(default_factory=dict)
    #: The piece of each task that sends one.
    pieces: dict[str, object] = field(default_factory=dict)

    def add(self, task: str, about: str, document: Mapping[str, object]) -> None:
        """Add the document of a task."""
        for name, value in {"call": about, **document}.items():
            canonical = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
            self.entries.setdefault(bounded_text(name), {}).setdefault(canonical, []).append(task)
        self.abouts[task] = bounded_text(about, 40)

    def differences(self, order: Sequence[str]) -> list[Any]:
        """Return the entries that differ: each name with its values and their tasks, sorted as in `order`."""
        place = {task: number for number, task in enumerate(order)}
        differing = []
        for name, values in self.entries.items():
            named = {task for tasks in values.values() for task in tasks}
            if without := [task for task in self.abouts if task not in named]:
                values = {**values, b"null": values.get(b"null", []) + without}  # noqa: PLW2901
            if len(values) > 1:
                sets = [(value, sorted(tasks, key=place.__getitem__)) for value, tasks in values.items()]
                shown = sorted(sets, key=lambda item: place[item[1][0]])[:MAX_VALUES]
                differing.append([name, [[_shown(value), tasks[:MAX_TASKS]] for value, tasks in shown]])
            if len(differing) == MAX_DIFFERENCES:
                break
        return differing


class Exchanges:
    """The chief's side: collects documents, and answers when all have come. No sockets and no clock."""

    def __init__(self, tasks: Sequence[str]) -> None:
        self._tasks = tuple(tasks)
        self.open: dict[int, Exchange] = {}
        self._answered: dict[int, Message] = {}

    def offer(self, task: str, message: Message, now: float) -> Answers:
        """Take a task's document. Return the answers to send, by task."""
        number = int(message["number"])
        if number in self._answered:
            return [(task, self._answered[number])]
        document = message["document"]
        if task not in self._tasks or not isinstance(document, dict):
            raise ValueError("not a document of a task that trains")
        exchange = self.open.setdefault(number, Exchange(number))
        exchange.add(task, str(message["about"]), document)
        if message.get("piece") is not None:
            exchange.pieces[task] = message["piece"]
        if message.get("limit") is not None:
            exchange.deadline = min(exchange.deadline, now + float(message["limit"]))
        if len(exchange.abouts) < len(self._tasks):
            return []
        pieces = [[task, exchange.pieces[task]] for task in self._tasks if task in exchange.pieces]
        return self._answer(exchange, {"differ": exchange.differences(self._tasks), "pieces": pieces})

    def absent(self, exchange: Exchange) -> list[str]:
        """Return the tasks for which an exchange waits."""
        return [task for task in self._tasks if task not in exchange.abouts]

    def overdue(self, now: float, doing: Callable[[str], str]) -> Answers:
        """End the exchanges whose time is over. `doing` tells what a task does instead of coming."""
        late = [exchange for exchange in self.open.values() if now >= exchange.deadline]
        return [answer for exchange in late for answer in self.give_up(exchange, doing)]

    def give_up(self, exchange: Exchange, doing: Callable[[str], str]) -> Answers:
        """End an exchange without the absent tasks."""
        absent = {task: bounded_text(doing(task), MAX_VALUE) for task in self.absent(exchange)[:MAX_TASKS]}
        return self._answer(exchange, {"absent": absent, "differ": exchange.differences(self._tasks)})

    def _answer(self, exchange: Exchange, result: Message) -> Answers:
        message = {"type": "agreed", "number": exchange.number, **result}
        self.open.pop(exchange.number, None)
        self._answered[exchange.number] = message
        while len(self._answered) > _MAX_KEPT:
            self._answered.pop(next(iter(self._answered)))
        return [(task, message) for task in exchange.abouts]


def _shown(canonical: bytes) -> float | str | None:
    value = orjson.loads(canonical)
    return value if isinstance(value, (int, float)) or value is None else bounded_text(value, MAX_VALUE)

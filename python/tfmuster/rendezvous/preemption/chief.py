"""Find on the chief the point of the training at which all tasks leave. No sockets and no clock.

See :mod:`.task` for what the tasks do.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...net.channel import Message
from ..chief.exchanges import Answers


class SavingPoint:
    """The chief's side: asks every task how many points it has passed, and names the first one after all.

    Parameters
    ----------
    tasks : iterable of str
        The tasks that train.
    """

    def __init__(self, tasks: Iterable[str]) -> None:
        self._staying = list(tasks)
        self._passed: dict[str, int] = {}
        self._asked = self._decided = False

    def ask(self, message: Message) -> Answers:
        """Take a task's wish to leave because of a signal. The first one is sent to all tasks."""
        signal = int(message["signal"])
        if not 1 <= signal <= 64:
            raise ValueError("not the number of a signal")
        if self._asked:
            return []
        self._asked = True
        return self._to_all({"type": "leave", "signal": signal})

    def take(self, task: str, message: Message) -> Answers:
        """Take a task's number of points."""
        self._passed[task] = int(message["points"])
        return self._decide()

    def done(self, task: str) -> Answers:
        """Note that a task has finished its program, so that nobody waits for it."""
        if task in self._staying:
            self._staying.remove(task)
        return self._decide() if self._asked else []

    def _decide(self) -> Answers:
        known = all(task in self._passed for task in self._staying)
        if self._decided or not self._staying or not known:
            return []
        self._decided = True
        return self._to_all({"type": "leave-at", "point": 1 + max(self._passed.values())})

    def _to_all(self, message: Message) -> Answers:
        return [(task, message) for task in self._staying]

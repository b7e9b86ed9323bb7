"""Choose which tasks try to reach each other, and connect training tasks for :mod:`tfmuster.collectives`.

The latter are made over the tasks' own ports, the only ones that are known to be open, and are authenticated
like all others. They belong to :class:`tfmuster.collectives.Group` after the rendezvous.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from ..cluster.spec import Task, training_tasks
from ..net.channel import Message
from ..net.connections import Connection, Connections
from ..system.say import say
from .chief.roster import Participant

if TYPE_CHECKING:
    from ..collectives import Group

#: With up to this many tasks, every pair is checked; with more, a ring, and the chief with all tasks.
ALL_PAIRS: Final = 64


class Links:
    """The connections of one task to the other training tasks. Two threads of the chief share them."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._names = linked_tasks(task)
        self._sockets: dict[str, socket.socket] = {}
        self._lock = threading.Lock()

    def calls(self, name: str) -> bool:
        """Tell whether this task calls that one. Of two tasks, the later one calls."""
        here, names = self._task.name, self._names
        return here in names and name in names and names.index(name) < names.index(here)

    def accept(self, connections: Connections, connection: Connection, message: Message) -> None:
        """Answer a task that wants to keep its connection. Raises ValueError for another task."""
        name = message["task"]
        if name not in self._names or name == self._task.name:
            raise ValueError("not a training task")
        connection.send({"type": "linked"})
        self.keep(connections, connection, name)

    def keep(self, connections: Connections, connection: Connection, name: str) -> None:
        """Take over the socket of a connection to this task. A later one replaces an earlier one."""
        try:
            link = connections.release(connection)
        except OSError:
            return
        with self._lock:
            earlier = self._sockets.pop(name, None)
            self._sockets[name] = link
        if earlier is not None:
            earlier.close()

    def open(self) -> Group | None:
        """Hand over the connections, if there is one to each other training task."""
        here = self._task.name
        if set(self._sockets) != set(self._names) - {here}:
            self.close()
            return None
        # It imports NumPy, which most processes of a job that meet do not need before.
        from ..collectives import open_group

        sockets = [self._sockets.get(name) for name in self._names]
        return open_group(self._names.index(here), self._names, sockets)

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            sockets, self._sockets = list(self._sockets.values()), {}
        for link in sockets:
            link.close()


def linked_tasks(task: Task) -> list[str]:
    """Return the names of the tasks that sum tensors, in TensorFlow's order; none with parameter servers."""
    return [] if task.cluster.ps else [other.name for other in training_tasks(task.cluster)]


def links_wanted(chief: Task, participants: Iterable[Participant]) -> bool:
    """Tell whether all training tasks connect to each other. The chief's process says why not."""
    names = linked_tasks(chief)
    wishes = {one.name: one.links for one in participants if one.name in names}
    if len(names) < 2 or not any(wishes.values()):
        return False
    others = sorted(name for name, wish in wishes.items() if not wish)
    if others:
        why = f"{', '.join(others[:5])} can't use tfmuster's own, or was told not to"
    elif len(names) > ALL_PAIRS:
        why = f"tfmuster's own connect at most {ALL_PAIRS} tasks"
    else:
        return True
    say(f"tfmuster: gradients are summed by TensorFlow's collectives, which take longer: {why}")
    return False


def check_targets(chief: Task) -> dict[str, list[str]]:
    """Choose which tasks each task tries to reach: name -> names.

    A task that has reported can reach the chief. With more than `ALL_PAIRS` tasks, each tries only the next
    one, so that every machine connects once and every port is tried once, and the chief tries all.
    """
    tasks = chief.cluster.tasks()
    # TensorFlow starts no server for an evaluator.
    names = [task.name for task in tasks if task.type != "evaluator"]
    others = [name for name in names if name != chief.name]
    if len(names) <= ALL_PAIRS:
        targets = {name: [other for other in others if other != name] for name in names}
    else:
        targets = {name: [others[(at + 1) % len(others)]] for at, name in enumerate(others)}
        targets[chief.name] = others
    return {task.name: targets.get(task.name, []) for task in tasks}


def number_of_targets(task: Task) -> int:
    """Return how many tasks a task tries to reach by `check_targets`, without naming those of all tasks."""
    if task.type == "evaluator":
        return 0
    others = len(task.cluster) - len(task.cluster.evaluator) - 1
    if task.is_chief:
        return others
    return others - 1 if others < ALL_PAIRS else 1

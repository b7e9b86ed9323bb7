"""Call the tasks that have not reported to the chief: one that answers can still get the verdict."""

from __future__ import annotations

import time

from ...net.channel import Message
from ...net.connections import Connection, Connections
from ...net.ports import Resolver
from ...system.terminal_text import bounded_text
from .roster import Roster


class CallBack:
    """The chief's calls during one rendezvous, over the connections of its thread."""

    def __init__(self, connections: Connections, roster: Roster) -> None:
        self._connections, self._roster = connections, roster
        self._calls: dict[str, Connection] = {}
        self._resolver = Resolver()

    def call_missing(self) -> None:
        """Call every missing task that has not been called."""
        for name in self._roster.missing():
            if name not in self._calls:
                targets = self._resolver.addresses(self._roster.addresses[name])
                if isinstance(targets, list):
                    self._calls[name] = connection = self._connections.call(targets)
                    connection.owner = name

    def handle(
        self, connection: Connection, name: str, message: Message | None, deadline: float
    ) -> Message | None:
        """Handle an answer of a called task, or its end (None). Return it if the task can't reach the chief.

        All tasks must have arrived by the deadline (monotonic clock, seconds).
        """
        if message is None:
            self._calls.pop(name, None)
            self._roster.cut_off.pop(name, None)
        elif message["type"] == "challenge":
            if message["task"] == name and message["job"] == self._roster.digest:
                self._connections.keep(connection)
                connection.send({"type": "called", "left": max(0.0, deadline - time.monotonic())})
            else:
                if message["job"] == self._roster.digest and message["task"] in self._roster.addresses:
                    self._roster.answered_by[name] = message["task"]
                self._connections.end(connection, "not the one called")
        elif message["type"] == "trouble" and name in self._roster.missing():
            self._roster.cut_off[name] = bounded_text(message["reason"])
            return message
        return None

    def tell(self, message: Message) -> None:
        """Send a message to the tasks that have answered."""
        for connection in self._calls.values():
            if connection.channel.established:
                connection.send(message)

    def end(self) -> None:
        """Close all calls."""
        for connection in self._calls.values():
            self._connections.end(connection, "closed", tell=False)

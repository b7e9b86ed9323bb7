"""The chief's calls to those who have not reported: who answers runs, and can be told what the matter is."""

from __future__ import annotations

import time

from ..net.channel import Message
from ..net.connections import Hub, Line
from ..net.ports import Resolver
from .roster import Roll, printable


class Summons:
    """The calls of one rendezvous.

    Parameters
    ----------
    hub : Hub
        What carries them.
    roll : Roll
        Who is here, and where the others are to be found.
    """

    def __init__(self, hub: Hub, roll: Roll) -> None:
        self._hub, self._roll = hub, roll
        self._lines: dict[str, Line] = {}
        self._resolver = Resolver()

    def call_missing(self) -> None:
        """Call all who are missing and have not been called."""
        for name in self._roll.missing():
            if name not in self._lines:
                targets = self._resolver.addresses(self._roll.addresses[name])
                if isinstance(targets, list):
                    self._lines[name] = line = self._hub.call(targets)
                    line.owner = name

    def handle(self, line: Line, name: str, message: Message | None, deadline: float) -> Message | None:
        """Take an answer to a call; returns it if it says that the task can't come.

        Parameters
        ----------
        line : Line
            That of the call.
        name : str
            The task that was called.
        message : dict or None
            What has come; None at the end of the line.
        deadline : float
            When everyone must have arrived (monotonic clock).
        """
        if message is None:
            self._lines.pop(name, None)
            self._roll.cut_off.pop(name, None)
        elif message["type"] == "challenge":
            if message["task"] == name and message["job"] == self._roll.digest:
                self._hub.keep(line)
                line.send({"type": "called", "left": max(0.0, deadline - time.monotonic())})
            else:
                if message["job"] == self._roll.digest and message["task"] in self._roll.addresses:
                    self._roll.answered_by[name] = message["task"]
                self._hub.end(line, "not the one called")
        elif message["type"] == "trouble" and name in self._roll.missing():
            self._roll.cut_off[name] = printable(message["reason"])
            return message
        return None

    def tell(self, message: Message) -> None:
        """Tell those who have answered."""
        for line in self._lines.values():
            if line.channel.established:
                line.send(message)

    def end(self) -> None:
        """Hang up."""
        for line in self._lines.values():
            self._hub.end(line, "closed", tell=False)

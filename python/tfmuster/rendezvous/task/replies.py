"""Keep the questions of one task to the chief, and the replies, which come in any order."""

from __future__ import annotations

import threading
import time

from ...net.channel import Message


class Replies:
    """Questions by number. All methods may be called from any thread."""

    def __init__(self) -> None:
        self._asked = 0
        self._replies: dict[int, Message] = {}
        self._replied = threading.Condition()
        #: How many threads wait for a reply.
        self.waiting = 0

    def next_number(self) -> int:
        """Return the number of a new question. `wait` must follow."""
        with self._replied:
            self._asked += 1
            self.waiting += 1
            return self._asked

    def wait(self, number: int, timeout: float | None, over: threading.Event) -> Message | None:
        """Return the reply; None after `timeout` seconds, or if the job is over."""
        deadline = float("inf") if timeout is None else time.monotonic() + timeout
        with self._replied:
            while (reply := self._replies.pop(number, None)) is None:
                if over.is_set() or time.monotonic() >= deadline:
                    break
                # Wait in short steps: on some platforms Ctrl-C can't interrupt a wait without limit.
                self._replied.wait(min(0.5, max(0.0, deadline - time.monotonic())))
            self.waiting -= 1
        return reply

    def take(self, message: Message) -> None:
        """Take a reply from the chief."""
        with self._replied:
            self._replies[int(message["number"])] = message
            self._replied.notify_all()

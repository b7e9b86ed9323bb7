"""Keep the spare processes of a session between its calls of ``launch(function)``."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace

from .spares import Spares
from .worker_process import Placement


class WarmWorkers(Spares):
    """Processes with TensorFlow and Keras imported, of which each becomes a worker of one call.

    Use it in a ``with`` block, or end them with :meth:`close`. They end with the session in any case.

    Parameters
    ----------
    number : int
        How many of them wait.
    command : sequence of str
        Their command, without the arguments of a call.
    idle : float
        After how many seconds without a call they end. The next call starts them again.
    """

    def __init__(self, number: int, command: Sequence[str], idle: float) -> None:
        super().__init__()
        self.number = number
        self.command = tuple(command)
        self._idle = idle
        self._timer: threading.Timer | None = None

    def __repr__(self) -> str:
        waiting = len(self)
        return f"<{self.number} warm workers{'' if waiting == self.number else f', of which {waiting} wait'}>"

    def prepare(self, placements: Iterable[Placement]) -> None:
        """Have as many processes as the session wants wait for a call with these workers."""
        known = [replace(placement, command=self.command) for placement in placements]
        if self not in _kept or not known:
            return
        super().prepare(known[index % len(known)] for index in range(self.number))
        self._wait()

    def refill(self, placements: Iterable[Placement]) -> None:
        """Have others wait in place of those that the last call took."""
        self.prepare(placements)

    def close(self) -> None:
        """End them. Later calls start new processes for their workers."""
        _kept[:] = [kept for kept in _kept if kept is not self]
        self._rest()

    def _wait(self) -> None:
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = threading.Timer(self._idle, self._rest)
            self._timer.daemon = True
            self._timer.start()

    def _rest(self) -> None:
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        super().close()


_kept: list[WarmWorkers] = []


def keep(workers: WarmWorkers) -> None:
    """Make these the warm workers of the session, in place of others."""
    end_warm_workers()
    _kept.append(workers)


def warm_workers_for(command: Sequence[str]) -> WarmWorkers | None:
    """Return the session's warm workers if they run this command."""
    return next((kept for kept in _kept if tuple(command[: len(kept.command)]) == kept.command), None)


def session_workers() -> list[WarmWorkers]:
    """Return the warm workers of the session, if it has any."""
    return list(_kept)


@atexit.register
def end_warm_workers() -> None:
    """End the warm workers of the session."""
    for kept in list(_kept):
        kept.close()

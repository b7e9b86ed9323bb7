"""Note a shutdown signal in a launcher, so that its job can write a checkpoint before it ends."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType
from typing import Final

#: Signals that end a launcher: of the system, of a terminal that closes, and of batch systems.
SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)


class ShutdownSignal:
    """The shutdown signal that this process has got.

    Attributes
    ----------
    signal : int
        The signal; 0 if there was none.
    can_save : callable or None
        Tells whether the job can be saved now. Without it, a signal interrupts this process; so does any but
        SIGUSR1 while it can't be saved.
    """

    def __init__(self) -> None:
        self.signal = 0
        self.can_save: Callable[[], bool] | None = None

    def take_signals(self) -> None:
        """Handle the signals that this process does not ignore. A second one interrupts it at once."""
        for number in SIGNALS:
            # nohup ignores SIGHUP: the job is to survive the terminal.
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._handle)

    def takes(self, number: int) -> bool:
        """Return whether this process ends its job after a signal, and not only itself."""
        return signal.getsignal(number) == self._handle

    def _handle(self, number: int, _: FrameType | None) -> None:
        first, self.signal = not self.signal, self.signal or number
        # SIGUSR1 announces the end, so a training that begins soon is still saved.
        waits = self.can_save is not None and (number == signal.SIGUSR1 or self.can_save())
        if not (first and waits):
            raise KeyboardInterrupt


#: The shutdown signal of this process.
SHUTDOWN: Final = ShutdownSignal()

"""Hold back the connections that TensorFlow accepts, until this process has judged them (Linux).

For kernels that let only administrators filter the packets of TCP sockets. ``accept_gate.c`` says how.
"""

from __future__ import annotations

import contextlib
import ctypes
import socket
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).with_name("accept_gate.c")

#: How long a connection of this process to itself may take, in seconds.
_BELL_SECONDS = 0.5


class AcceptGate:
    """The gate of this process. Only one thread at a time may call each method.

    Parameters
    ----------
    path : Path
        The compiled library.

    Raises
    ------
    OSError
        The library can't be loaded, for example from a file system that forbids execution.
    """

    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path))
        self._bells: set[int] = set()

    def install(self, part: str) -> bool:
        """Replace ``accept`` in the loaded libraries whose path contains `part`. Tell if it was found."""
        return bool(self._library.tfmuster_gate_install(part.encode()))

    def guard(self, port: int) -> None:
        """Hold back the connections to one more port.

        Raises
        ------
        OSError
            There are too many ports.
        """
        if self._library.tfmuster_gate_guard(port):
            raise OSError(f"no room to guard port {port}")

    def next(self, seconds: float) -> socket.socket | None:
        """Return the next connection that is held back, or None after some seconds."""
        while (descriptor := self._library.tfmuster_gate_next(int(seconds * 1000))) >= 0:
            held = socket.socket(fileno=descriptor)
            with contextlib.suppress(OSError):
                caller = held.getpeername()[1]
                if caller not in self._bells:
                    return held
                self._bells.discard(caller)
            held.close()
        return None

    def admit(self, held: socket.socket) -> None:
        """Let a connection be accepted."""
        port = held.getsockname()[1]
        if self._library.tfmuster_gate_admit(held.fileno()):
            held.close()
            return
        held.detach()
        self.ring(port)

    def shut(self, shut: bool) -> None:
        """Leave connections that come with the kernel, or take them from it again."""
        self._library.tfmuster_gate_shut(int(shut))

    def ring(self, port: int) -> None:
        """Make one connection to a port: TensorFlow looks only when somebody comes."""
        for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
            with contextlib.suppress(OSError), socket.socket(family) as bell:
                bell.bind((host, 0))
                caller = bell.getsockname()[1]
                # Before it connects: the thread that judges must know it.
                self._bells.add(caller)
                bell.settimeout(_BELL_SECONDS)
                try:
                    bell.connect((host, port))
                    return
                except OSError:
                    self._bells.discard(caller)

"""Hold back the connections that TensorFlow accepts, until this process has judged them (Linux).

For kernels that let only administrators filter the packets of TCP sockets. ``accept_gate.c`` says how.
"""

from __future__ import annotations

import contextlib
import ctypes
import socket
import time
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).with_name("accept_gate.c")

#: How long a connection of this process to itself may take, in seconds.
_BELL_SECONDS = 1.0


class AcceptGate:
    """The gate of this process. Only one thread may use it.

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
        self._bells: dict[int, float] = {}

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
                if self._bells.pop(held.getpeername()[1], 0.0) < time.monotonic():
                    return held
            held.close()
        return None

    def admit(self, held: socket.socket) -> None:
        """Let a connection be accepted."""
        port = held.getsockname()[1]
        if self._library.tfmuster_gate_admit(held.fileno()):
            held.close()
            return
        held.detach()
        # TensorFlow looks only when somebody comes.
        for host in ("127.0.0.1", "::1"):
            with contextlib.suppress(OSError), socket.create_connection((host, port), _BELL_SECONDS) as bell:
                self._bells[bell.getsockname()[1]] = time.monotonic() + _BELL_SECONDS
                return

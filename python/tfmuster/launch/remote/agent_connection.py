"""The launcher's end of a connection to an agent: through ssh, or one that the agent has called for."""

from __future__ import annotations

import contextlib
import os
import queue
import selectors
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

from .files import file_frames
from .frames import BEAT_SECONDS, MAGIC, PIECE, FrameError, Frames, Seal, Way, message, read_message
from .ssh_faults import explain_ssh_failure

_LOOK_SECONDS = 0.2


class Link(Protocol):
    """What carries a connection."""

    way: Way
    #: Where the other end may complain, beside the frames.
    complaints: int | None

    def close_output(self) -> None:
        """Tell the other end that nothing more will come."""

    def kill(self, *, over: bool) -> int:
        """End it, unless it is over and ends by itself; the exit code of what carried it."""

    def fault(self, host: str, said: str, code: int | None, seconds: float) -> dict[str, Any]:
        """Why no agent has answered, as :func:`.ssh_faults.explain_ssh_failure` says it."""


class SshLink:
    """A running ssh."""

    def __init__(self, command: list[str]) -> None:
        # ssh leaves a signal alone that is ignored when it starts: the worker's last words are to come
        # through.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self._ssh = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
        )
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        assert self._ssh.stdin and self._ssh.stdout and self._ssh.stderr
        self.way = Way(self._ssh.stdout.fileno(), self._ssh.stdin.fileno())
        self.complaints: int | None = self._ssh.stderr.fileno()

    def close_output(self) -> None:
        """Close ssh's input."""
        assert self._ssh.stdin is not None
        with contextlib.suppress(OSError):
            self._ssh.stdin.close()

    def kill(self, *, over: bool) -> int:
        """End ssh; its exit code."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            if over:
                return self._ssh.wait(timeout=2)
        self._ssh.kill()
        return self._ssh.wait()

    def fault(self, host: str, said: str, code: int | None, seconds: float) -> dict[str, Any]:
        """By what ssh has said."""
        return explain_ssh_failure(host, said, code, seconds)


class HomeLink:
    """A socket that was handed over, from an agent that has called."""

    complaints: int | None = None

    def __init__(self, number: int, key: bytes) -> None:
        self._socket = socket.socket(fileno=number)
        self.way = Way(number, number, Seal(key, caller=False))

    def close_output(self) -> None:
        """Close this direction."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def kill(self, *, over: bool) -> int:
        """Close it."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        return 0

    def fault(self, host: str, said: str, code: int | None, seconds: float) -> dict[str, Any]:
        """It was there, as it had called."""
        how = f"does not answer within {seconds:.0f} s" if code is None else "has ended before it answered"
        return {
            "code": "no-agent",
            "message": f"its agent {how}",
            "fix": "see what the log of what started it says",
            "said": said.strip(),
        }


class AgentConnection:
    """A link and what comes through it.

    Attributes
    ----------
    silence : float
        How long nothing has come while it was waited for, seconds.
    said : str
        What ssh, or a program at the other end, has written to its standard error; the end of it.
    """

    def __init__(self, link: Link, first: bytes) -> None:
        self._link = link
        self._frames = Frames(MAGIC)
        self._outgoing: queue.Queue[Iterable[bytes]] = queue.Queue()
        self._over = threading.Event()
        self._selector = selectors.DefaultSelector()
        self._selector.register(link.way, selectors.EVENT_READ)
        if link.complaints is not None:
            self._selector.register(link.complaints, selectors.EVENT_READ)
        self.silence = 0.0
        self.said = ""
        self.send(first)
        threading.Thread(target=self._write, daemon=True).start()

    @property
    def open(self) -> bool:
        """Whether something may still come."""
        return bool(self._selector.get_map())

    @property
    def noise(self) -> str:
        """What a login shell has printed instead of, or before, an agent."""
        return self._frames.noise.decode(errors="replace")

    def send(self, *data: bytes) -> None:
        """Send frames; returns at once."""
        self._outgoing.put(data)

    def send_file(self, path: str, name: str) -> None:
        """Send a file, and the name that it is to get; returns at once."""
        self._outgoing.put(file_frames(Path(path), name))

    def receive(self) -> Iterator[tuple[bytes, bytes]]:
        """The frames that come within a moment.

        Raises
        ------
        FrameError
            It was something else.
        """
        begun = time.monotonic()
        ready = self._selector.select(_LOOK_SECONDS)
        self.silence += time.monotonic() - begun
        for key, _ in ready:
            if key.fd == self._link.complaints:
                said = os.read(key.fd, PIECE)
                self.said = (self.said + said.decode(errors="replace"))[-4000:]
                if not said:
                    self._selector.unregister(key.fileobj)
            elif (data := self._link.way.read()) is None:
                self._selector.unregister(key.fileobj)
            else:
                self.silence = 0.0
                yield from self._frames.feed(data)

    def end(self) -> None:
        """Tell the other end, which ends the worker and then itself."""
        self._over.set()
        self._outgoing.put(())

    def kill(self) -> int:
        """End the link; the exit code of what carried it."""
        return self._link.kill(over=not self.open)

    def fault(self, host: str, why: str, seconds: float) -> dict[str, Any]:
        """End it; why no agent has answered on it."""
        ended = not self.open and not why
        code = self.kill()
        return self._link.fault(host, f"{self.noise}{self.said}{why}", code if ended else None, seconds)

    def _write(self) -> None:
        with contextlib.suppress(OSError):
            while not self._over.is_set():
                try:
                    frames = self._outgoing.get(timeout=BEAT_SECONDS)
                except queue.Empty:
                    frames = (message("beat"),)
                for data in frames:
                    if not self._over.is_set():
                        self._link.way.write(data)
        self._link.close_output()


def read_hello(connection: AgentConnection, host: str, seconds: float) -> dict[str, Any]:
    """The agent's ``hello``, or ``{"fault": ...}`` if there is none in time."""
    end = time.monotonic() + seconds
    why = ""
    try:
        while connection.open and time.monotonic() < end:
            for _, payload in connection.receive():
                hello = read_message(payload)
                return {**hello, "ahead": hello["time"] - time.time()}
    except FrameError as error:
        why = f"\n{error}"
    return {"fault": connection.fault(host, why, seconds)}

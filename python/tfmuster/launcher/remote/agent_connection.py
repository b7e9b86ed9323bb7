"""Connect a proxy to its agent: through ssh, or through a socket that the agent opened."""

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
from typing import Any

from ...net.channel import FILE, JSON, OUTPUT, Channel, ChannelError, Frame, message, read_message
from ..supervise.time_limits import BEAT, SSH
from .files import PIECE, file_frames
from .host_checks import explain_ssh_failure

#: The first bytes from an agent that ssh started, which separate its frames from a login shell's output.
PREAMBLE = b"\n--tfmuster agent 2--\n"
#: Largest payload, in bytes: an environment with a large cluster. Output and files are sent in pieces.
_MAX_PAYLOAD = 32 << 20
_LOOK_SECONDS = 0.2
#: Texts for the errors of a connection.
_PROBLEMS = {
    "no-preamble": "no agent answers, only text",
    "not-json": "the answer is not a JSON object",
    "wrong-token": "the data was altered on its way",
}


def agent_channel(*, caller: bool, key: bytes | None = None, preamble: bytes = b"") -> Channel:
    """Make the framing of a connection to an agent, authenticated if a key is given."""
    return Channel(
        caller=caller, token=key, kinds=JSON + OUTPUT + FILE, limit=_MAX_PAYLOAD, preamble=preamble
    )


def channel_problem(error: ChannelError) -> str:
    """Return the text for an error of a connection to an agent."""
    return _PROBLEMS.get(error.reason, "the answer is not from tfmuster")


class Way:
    """The file descriptors of both directions of a connection, equal for a socket, and its framing."""

    def __init__(self, incoming: int, outgoing: int, channel: Channel) -> None:
        self._incoming, self._outgoing, self._channel = incoming, outgoing, channel

    @property
    def noise(self) -> bytes:
        """Bytes received before the preamble: what a login shell printed."""
        return self._channel.noise

    def fileno(self) -> int:
        """Return the descriptor to wait for."""
        return self._incoming

    def read(self) -> list[Frame] | None:
        """Return the complete frames, if any; None at the end. Raises ChannelError if they are not valid."""
        try:
            data = os.read(self._incoming, PIECE)
        except OSError:
            data = b""
        return self._channel.unpack(data) if data else None

    def write(self, frame: Frame) -> None:
        """Write a frame. Raises OSError if the other end has closed the connection."""
        self.write_raw(self._channel.pack(frame))

    def write_raw(self, data: bytes) -> None:
        """Write bytes outside of frames, such as the preamble."""
        view = memoryview(data)
        while view:
            view = view[os.write(self._outgoing, view) :]


class SshLink:
    """The transport of a connection that is a running ssh."""

    def __init__(self, command: list[str]) -> None:
        # ssh keeps ignoring a signal that is ignored when it starts. So SIGTERM does not cut off the worker's
        # last messages.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self._ssh = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
        )
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        assert self._ssh.stdin and self._ssh.stdout and self._ssh.stderr
        channel = agent_channel(caller=True, preamble=PREAMBLE)
        self.way = Way(self._ssh.stdout.fileno(), self._ssh.stdin.fileno(), channel)
        #: Descriptor with error messages from the other end.
        self.complaints = self._ssh.stderr.fileno()

    def close_output(self) -> None:
        """Signal the end of the output to the other end."""
        assert self._ssh.stdin is not None
        with contextlib.suppress(OSError):
            self._ssh.stdin.close()

    def kill(self, *, over: bool) -> int:
        """End ssh, or wait for its end if it is `over`. Return its exit code."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            if over:
                return self._ssh.wait(timeout=SSH.seconds)
        self._ssh.kill()
        return self._ssh.wait()

    fault = staticmethod(explain_ssh_failure)


class HomeLink:
    """The transport of a connection that is a socket, from an agent that connected to the launcher."""

    complaints = None

    def __init__(self, number: int, key: bytes) -> None:
        self._socket = socket.socket(fileno=number)
        self.way = Way(number, number, agent_channel(caller=False, key=key))

    def close_output(self) -> None:
        """Signal the end of the output to the other end."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def kill(self, *, over: bool) -> int:
        """Close the socket, and return 0."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        return 0

    def fault(self, host: str, output: str, code: int | None, seconds: float) -> dict[str, str]:
        """Explain why no agent answered: it had connected, so it was started."""
        how = f"does not answer within {seconds:.0f} s" if code is None else "ended before it answered"
        last = f" ({text})" if (text := output.strip()) else ""
        return {
            "code": "no-agent",
            "message": f"its agent {how}{last}",
            "fix": "see the log of the engine that started it",
        }


class AgentConnection:
    """A connection to an agent, with its pending messages."""

    def __init__(self, link: SshLink | HomeLink) -> None:
        self._link = link
        # A signal handler puts into it, which a queue with a lock does not allow.
        self._outgoing: queue.SimpleQueue[Iterable[Frame]] = queue.SimpleQueue()
        # An event has a lock, too.
        self._over = False
        self._selector = selectors.DefaultSelector()
        self._selector.register(link.way, selectors.EVENT_READ)
        if link.complaints is not None:
            self._selector.register(link.complaints, selectors.EVENT_READ)
        #: How long nothing has arrived while this process waited, in seconds.
        self.silence = 0.0
        #: The end of the error output of ssh or of a program at the other end.
        self.output = ""
        threading.Thread(target=self._write, daemon=True).start()

    @property
    def open(self) -> bool:
        """Whether more data may arrive."""
        return bool(self._selector.get_map())

    def send(self, frame: Frame) -> None:
        """Queue a frame to send."""
        self._outgoing.put((frame,))

    def send_file(self, path: str, name: str) -> None:
        """Queue a file to send, and its name at the other end, below `WORK` or `RUN` of :mod:`.files`."""
        self._outgoing.put(file_frames(Path(path), name))

    def receive(self, seconds: float = _LOOK_SECONDS) -> Iterator[Frame]:
        """Yield the frames that arrive within a short time. Raises ChannelError if no agent sends them."""
        begun = time.monotonic()
        ready = self._selector.select(seconds)
        self.silence += time.monotonic() - begun
        for key, _ in ready:
            if key.fd == self._link.complaints:
                data = os.read(key.fd, PIECE)
                self.output = (self.output + data.decode(errors="replace"))[-4000:]
                if not data:
                    self._selector.unregister(key.fileobj)
            elif (frames := self._link.way.read()) is None:
                self._selector.unregister(key.fileobj)
            else:
                self.silence = 0.0
                yield from frames

    def end(self) -> None:
        """Ask the agent once to end the worker and itself. What still waits to be sent is dropped."""
        if self._over:
            return
        self._over = True
        with contextlib.suppress(queue.Empty):
            while True:
                self._outgoing.get_nowait()
        self.send(message("end"))

    def kill(self) -> int:
        """End the link, and return its exit code."""
        return self._link.kill(over=not self.open)

    def fault(self, host: str, why: str, seconds: float) -> dict[str, str]:
        """End the connection, and explain why no agent answered."""
        ended = not self.open and not why
        code = self.kill()
        noise = self._link.way.noise.decode(errors="replace")
        return self._link.fault(host, f"{noise}{self.output}{why}", code if ended else None, seconds)

    def _write(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                try:
                    frames = self._outgoing.get(timeout=BEAT.seconds)
                except queue.Empty:
                    frames = (message("beat"),)
                for frame in frames:
                    if frame.kind == FILE and self._over:
                        break
                    self._link.way.write(frame)
        self._link.close_output()


def read_hello(connection: AgentConnection, host: str, seconds: float) -> dict[str, Any]:
    """Return the agent's ``hello``, or ``{"fault": ...}`` if it does not arrive in time."""
    end = time.monotonic() + seconds
    why = ""
    try:
        while connection.open and time.monotonic() < end:
            for _, payload in connection.receive():
                hello = read_message(payload)
                return {**hello, "ahead": hello["time"] - time.time()}
    except ChannelError as error:
        why = f"\n{channel_problem(error)}"
    return {"fault": connection.fault(host, why, seconds)}

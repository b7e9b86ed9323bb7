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

from ...net.channel import FILE, JSON, OUTPUT, Channel, ChannelError, Frame, message, read_message
from ..supervise.time_limits import BEAT, SSH
from .files import PIECE, file_frames
from .ssh_faults import explain_ssh_failure

#: What an agent that ssh has started writes first, so that what a login shell prints is told apart.
PREAMBLE = b"\n--tfmuster agent 2--\n"
#: Largest payload, bytes: an environment with a large cluster in it. Output and files come in pieces.
_MAX_PAYLOAD = 32 << 20
_LOOK_SECONDS = 0.2
#: What was wrong with a connection, in words.
_PROBLEMS = {
    "no-preamble": "no agent answers, only text",
    "not-json": "what came is no JSON object",
    "wrong-token": "what came was altered on its way",
}


def agent_channel(*, caller: bool, key: bytes | None = None, preamble: bytes = b"") -> Channel:
    """The framing of a connection to an agent, sealed where it has a key of its own."""
    return Channel(
        caller=caller, token=key, kinds=JSON + OUTPUT + FILE, limit=_MAX_PAYLOAD, preamble=preamble
    )


def channel_problem(error: ChannelError) -> str:
    """What was wrong with a connection to an agent, in words."""
    return _PROBLEMS.get(error.reason, "what came is not of tfmuster")


class Way:
    """The two directions of a connection, as file descriptors, and its framing.

    Parameters
    ----------
    incoming, outgoing : int
        What is read and what is written; of a socket they are the same.
    channel : Channel
        From frames to bytes and back.
    """

    def __init__(self, incoming: int, outgoing: int, channel: Channel) -> None:
        self._incoming, self._outgoing, self._channel = incoming, outgoing, channel

    @property
    def noise(self) -> bytes:
        """What came before the preamble."""
        return self._channel.noise

    def fileno(self) -> int:
        """What is to be waited for."""
        return self._incoming

    def read(self) -> list[Frame] | None:
        """The frames that are complete now, which may be none yet; None at the end.

        Raises
        ------
        ChannelError
            What came is not the other end's.
        """
        try:
            data = os.read(self._incoming, PIECE)
        except OSError:
            data = b""
        return self._channel.unpack(data) if data else None

    def write(self, frame: Frame) -> None:
        """Write all of a frame; OSError if nobody is left to read it."""
        self.write_raw(self._channel.pack(frame))

    def write_raw(self, data: bytes) -> None:
        """Write bytes that are no frame: the preamble."""
        view = memoryview(data)
        while view:
            view = view[os.write(self._outgoing, view) :]


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
        channel = agent_channel(caller=True, preamble=PREAMBLE)
        self.way = Way(self._ssh.stdout.fileno(), self._ssh.stdin.fileno(), channel)
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
                return self._ssh.wait(timeout=SSH.seconds)
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
        self.way = Way(number, number, agent_channel(caller=False, key=key))

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

    def __init__(self, link: Link) -> None:
        self._link = link
        self._outgoing: queue.Queue[Iterable[Frame]] = queue.Queue()
        self._over = threading.Event()
        self._selector = selectors.DefaultSelector()
        self._selector.register(link.way, selectors.EVENT_READ)
        if link.complaints is not None:
            self._selector.register(link.complaints, selectors.EVENT_READ)
        self.silence = 0.0
        self.said = ""
        threading.Thread(target=self._write, daemon=True).start()

    @property
    def open(self) -> bool:
        """Whether something may still come."""
        return bool(self._selector.get_map())

    @property
    def noise(self) -> str:
        """What a login shell has printed instead of, or before, an agent."""
        return self._link.way.noise.decode(errors="replace")

    def send(self, frame: Frame) -> None:
        """Send a frame; returns at once."""
        self._outgoing.put((frame,))

    def send_file(self, path: str, name: str) -> None:
        """Send a file, and the name that it is to get; returns at once."""
        self._outgoing.put(file_frames(Path(path), name))

    def receive(self) -> Iterator[Frame]:
        """The frames that come within a moment.

        Raises
        ------
        ChannelError
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
            elif (frames := self._link.way.read()) is None:
                self._selector.unregister(key.fileobj)
            else:
                self.silence = 0.0
                yield from frames

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
                    frames = self._outgoing.get(timeout=BEAT.seconds)
                except queue.Empty:
                    frames = (message("beat"),)
                for frame in frames:
                    if not self._over.is_set():
                        self._link.way.write(frame)
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
    except ChannelError as error:
        why = f"\n{channel_problem(error)}"
    return {"fault": connection.fault(host, why, seconds)}

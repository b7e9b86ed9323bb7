"""What a proxy and its agent say to each other: frames of a kind, a length and that many bytes.

A frame is one letter, the length as four bytes, and the payload: ``J`` a JSON object with a ``type``, ``O``
output of the worker, ``F`` a piece of a file. Before the first one the agent sends `MAGIC`, so that what a
login shell prints is told apart. Nothing is unpickled, and no frame is longer than `LONGEST`.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import struct
from collections.abc import Iterator
from typing import Any

import orjson

MAGIC = b"\n--tfmuster agent 1--\n"
JSON, OUTPUT, FILE = b"J", b"O", b"F"
#: Bytes in a frame. The longest is a script sent along, or the environment with a large cluster in it.
LONGEST = 32 << 20
#: Bytes of a piece of output or of a file.
PIECE = 65_536
#: Each end says something at least so often, seconds.
BEAT_SECONDS = 1.0
#: An end that has heard nothing for so long ends; the rendezvous has the same limit.
SILENT_SECONDS = 8.0
_HEADER = struct.Struct(">cI")
_SEAL_BYTES = 32
_LENGTH = struct.Struct(">I")
#: Bytes of data in a sealed piece.
_LONGEST = 4 * PIECE


class FrameError(Exception):
    """What has come is no frame."""


def frame(kind: bytes, payload: bytes) -> bytes:
    """The bytes of one frame."""
    return _HEADER.pack(kind, len(payload)) + payload


def message(type: str, **fields: Any) -> bytes:
    """The bytes of a frame with a JSON object."""
    return frame(JSON, orjson.dumps({"type": type, **fields}))


class Frames:
    """Cuts a stream of bytes into frames.

    Parameters
    ----------
    magic : bytes
        What comes before the first frame; all before it is kept in `noise`.
    """

    def __init__(self, magic: bytes = b"") -> None:
        self._magic = magic
        self._data = bytearray()
        self.noise = b""

    def feed(self, data: bytes) -> list[tuple[bytes, bytes]]:
        """Kind and payload of the frames that `data` completes.

        Raises
        ------
        FrameError
            It is none, or too long a one.
        """
        self._data += data
        if self._magic:
            before, found, after = self._data.partition(self._magic)
            if not found:
                if len(self._data) > PIECE:
                    raise FrameError("no agent answers, only text")
                self.noise = bytes(self._data)
                return []
            self.noise, self._magic, self._data = bytes(before), b"", after
        frames = []
        while len(self._data) >= _HEADER.size:
            kind, length = _HEADER.unpack_from(self._data)
            if kind not in (JSON, OUTPUT, FILE) or length > LONGEST:
                raise FrameError("what came is not of tfmuster")
            end = _HEADER.size + length
            if len(self._data) < end:
                break
            frames.append((kind, bytes(self._data[_HEADER.size : end])))
            del self._data[:end]
        return frames


def read_message(payload: bytes) -> dict[str, Any]:
    """The JSON object of a ``J`` frame.

    Raises
    ------
    FrameError
        It is none.
    """
    try:
        value = orjson.loads(payload)
    except orjson.JSONDecodeError as error:
        raise FrameError("what came is no JSON") from error
    if not isinstance(value, dict):
        raise FrameError("what came is no JSON object")
    return value


class Seal:
    """Cuts what is sent into sealed pieces, and takes the seals off what comes.

    Parameters
    ----------
    key : bytes
        The connection's.
    caller : bool
        True for the end that called.
    """

    def __init__(self, key: bytes, *, caller: bool) -> None:
        self._key = key
        self._ways = (b">", b"<") if caller else (b"<", b">")
        self._counts = [0, 0]
        self._buffer = bytearray()

    def put_on(self, data: bytes) -> Iterator[bytes]:
        """The pieces of `data`, sealed."""
        for at in range(0, len(data), _LONGEST):
            part = data[at : at + _LONGEST]
            yield _LENGTH.pack(len(part)) + self._next(0, part) + part

    def take_off(self, data: bytes) -> bytes:
        """What the pieces held that `data` completes.

        Raises
        ------
        FrameError
            A piece is not the other end's next one.
        """
        self._buffer += data
        whole = bytearray()
        while len(self._buffer) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer)
            if length > _LONGEST:
                raise FrameError("what came is not of tfmuster")
            begin = _LENGTH.size + _SEAL_BYTES
            if len(self._buffer) < begin + length:
                break
            part = bytes(self._buffer[begin : begin + length])
            if not hmac.compare_digest(self._buffer[_LENGTH.size : begin], self._next(1, part)):
                raise FrameError("what came was altered on its way")
            whole += part
            del self._buffer[: begin + length]
        return bytes(whole)

    def _next(self, way: int, part: bytes) -> bytes:
        count = struct.pack(">Q", self._counts[way])
        self._counts[way] += 1
        return hmac.digest(self._key, self._ways[way] + count + part, hashlib.sha256)


class Way:
    """The two directions of a connection, as file descriptors.

    Parameters
    ----------
    incoming, outgoing : int
        What is read and what is written; of a socket they are the same.
    seal : Seal, optional
        What protects it, where nothing else does.
    """

    def __init__(self, incoming: int, outgoing: int, seal: Seal | None = None) -> None:
        self._incoming, self._outgoing, self._seal = incoming, outgoing, seal

    def fileno(self) -> int:
        """What is to be waited for."""
        return self._incoming

    def read(self) -> bytes | None:
        """What has come, which may be nothing yet; None at the end.

        Raises
        ------
        FrameError
            It is not the other end's.
        """
        try:
            data = os.read(self._incoming, PIECE)
        except OSError:
            data = b""
        if not data:
            return None
        return self._seal.take_off(data) if self._seal else data

    def write(self, data: bytes) -> None:
        """Write all of it; OSError if nobody is left to read it."""
        for piece in self._seal.put_on(data) if self._seal else (data,):
            view = memoryview(piece)
            while view:
                view = view[os.write(self._outgoing, view) :]

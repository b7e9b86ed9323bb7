"""What a stand-in and its agent say to each other: frames of a kind, a length and that many bytes.

A frame is one letter, the length as four bytes, and the payload: ``J`` a JSON object with a ``type``, ``O``
output of the worker, ``F`` a piece of a file. Before the first one the agent sends `MAGIC`, so that what a
login shell prints is told apart. Nothing is unpickled, and no frame is longer than `LONGEST`.
"""

from __future__ import annotations

import struct
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

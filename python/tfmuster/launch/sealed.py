"""What a connection between an agent and its launcher carries when no ssh protects it: sealed pieces.

A piece is its length, an HMAC and the data. Its key is of this connection alone, as both ends have proved to
each other that they know the job's token (:mod:`tfmuster.wire`): a piece that is altered, repeated, left out
or sent back is refused. What goes over it is authentic, not secret, and so the token itself never does.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import struct
from collections.abc import Iterator

from .frames import PIECE, FrameError

#: Bytes of data in a piece.
_LONGEST = 4 * PIECE
_LENGTH = struct.Struct(">I")
_SEAL_BYTES = 32


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

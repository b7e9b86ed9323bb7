"""Send and receive vectors between workers, for :mod:`.in_numpy`."""

from __future__ import annotations

import os
import select
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

#: The last five fields are for workers that can read each other's memory.
HEADER: Final = struct.Struct("<IHHQQQQQQII")
MAGIC: Final = 0x31584D54
#: TensorFlow's codes of the types.
TYPES: Final = {"float32": 1, "float64": 2, "int32": 3, "int64": 9, "bfloat16": 14, "float16": 19}
_LOOK_MS: Final = 200


class SumError(Exception):
    """A sum was aborted. The text says why."""


class Stream:
    """What is sent to another worker, and what comes from it, in one operation."""

    def __init__(self, made: socket.socket, name: str) -> None:
        self.socket, self.name = made, name
        self.out: list[memoryview] = []
        self.into: list[memoryview] = []

    def send(self) -> None:
        """Send what the kernel takes now."""
        while self.out:
            try:
                sent = self.socket.send(self.out[0], socket.MSG_NOSIGNAL)
            except BlockingIOError:
                return
            self.out[0] = self.out[0][sent:]
            if not self.out[0]:
                del self.out[0]

    def receive(self) -> bool:
        """Receive what has come. Return whether a part is complete."""
        while self.into:
            try:
                got = self.socket.recv_into(self.into[0])
            except BlockingIOError:
                return False
            if not got:
                raise SumError(f"{self.name} has closed its connection")
            self.into[0] = self.into[0][got:]
            if not self.into[0]:
                del self.into[0]
                return True
        return False


class Streams:
    """The connections of one worker.

    Parameters
    ----------
    rank : int
        The number of this worker.
    sockets : sequence
        A connected socket for each worker; None for this one.
    names : sequence of str
    """

    def __init__(self, rank: int, sockets: Sequence[socket.socket | None], names: Sequence[str]) -> None:
        self._rank, self._sockets, self._names = rank, sockets, names
        self._reason = ""

    def abort(self, reason: str) -> None:
        """End the operation that is under way, and all later ones."""
        self._reason = self._reason or reason

    def _begin(
        self, header: bytes, parts: dict[int, list[memoryview]]
    ) -> tuple[dict[int, Stream], dict[int, bytearray]]:
        """Return a stream to each of the others, to which the header and its parts are to be sent."""
        streams, heads = {}, {}
        for r, following in parts.items():
            made = self._sockets[r]
            assert made is not None
            streams[r] = stream = Stream(made, self._names[r])
            stream.out = [part for part in (memoryview(header), *following) if part]
            heads[r] = bytearray(HEADER.size)
            stream.into = [memoryview(heads[r])]
        return streams, heads

    def _move(self, streams: dict[int, Stream], began: float, *, all_sent: bool = False) -> dict[int, float]:
        """Receive what the streams expect, and send meanwhile. Return when each had got its part."""
        late: dict[int, float] = {}
        while True:
            poll = select.poll()
            waiting = False
            if self._reason:
                raise SumError(self._reason)
            for r, stream in streams.items():
                try:
                    stream.send()
                    if stream.receive():
                        late[r] = time.perf_counter() - began
                except OSError as error:
                    why = os.strerror(error.errno or 0)
                    raise SumError(f"the connection to {stream.name} broke ({why})") from error
                wanted = (select.POLLIN if stream.into else 0) | (select.POLLOUT if stream.out else 0)
                if wanted:
                    poll.register(stream.socket, wanted)
                waiting |= bool(stream.into) or (all_sent and bool(stream.out))
            if not waiting:
                return late
            poll.poll(_LOOK_MS)

    def _check_all(self, heads: dict[int, bytearray], header: bytes) -> None:
        for r, head in heads.items():
            self._check(self._names[r], HEADER.unpack(head), HEADER.unpack(header))

    def _check(self, name: str, theirs: tuple[int, ...], ours: tuple[int, ...]) -> None:
        if theirs[0] != MAGIC:
            raise SumError(f"{name} has sent something else than values")
        if theirs[3:5] != ours[3:5]:
            raise SumError(
                f"{name} is at another operation: number {theirs[3]} of its program, here number {ours[3]}"
            )
        if theirs[:6] != ours[:6]:
            raise SumError(
                f"{name} has {theirs[5]} values of type {theirs[1]}, sent as type {theirs[2]}, where this "
                f"worker has {ours[5]} of type {ours[1]}, sent as type {ours[2]}"
            )


def bytes_of(array: Any) -> memoryview:
    """Return the memory of a contiguous array."""
    return memoryview(array.view(np.uint8)).cast("B") if array.size else memoryview(b"")

"""Move vectors between workers for :mod:`.in_numpy`: over sockets, or from memory to memory.

The kernel lets processes of a user read each other's memory (``process_vm_readv``), which Python reaches
without a compiler.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import secrets
import select
import socket
import struct
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

#: The last five fields are for workers that can read each other's memory.
HEADER: Final = struct.Struct("<IHHQQQQQQII")
MAGIC: Final = 0x31584D54
#: TensorFlow's codes of the types.
TYPES: Final = {"float32": 1, "float64": 2, "int32": 3, "int64": 9, "bfloat16": 14, "float16": 19}
#: Sums of fewer bytes are sent.
READ_LEAST: Final = 1 << 20
#: Bytes that are read before they are added.
READ_PIECE: Final = 256 * 1024
#: Parts of one system call.
_MOST_PARTS: Final = 64
_LOOK_MS: Final = 200

#: Numbers of one of `TYPES`.
Array = npt.NDArray[Any]
#: Parts of a process's memory, each an address and a size in bytes.
Memory = list[tuple[int, int]]


class SumError(Exception):
    """A sum was aborted. The text says why."""


# ---- sockets --------------------------------------------------------------------------------------------


class Stream:
    """What is sent to another worker, and what comes from it, in one operation."""

    def __init__(self, connection: socket.socket, name: str) -> None:
        self.socket, self.name = connection, name
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
                received = self.socket.recv_into(self.into[0])
            except BlockingIOError:
                return False
            if not received:
                raise SumError(f"{self.name} has closed its connection")
            self.into[0] = self.into[0][received:]
            if not self.into[0]:
                del self.into[0]
                return True
        return False


class Streams:
    """The connections of one worker: a connected socket for each worker, None for this one."""

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
            connection = self._sockets[r]
            assert connection is not None
            streams[r] = stream = Stream(connection, self._names[r])
            stream.out = [part for part in (memoryview(header), *following) if part]
            heads[r] = bytearray(HEADER.size)
            stream.into = [memoryview(heads[r])]
        return streams, heads

    def _move(self, streams: dict[int, Stream], began: float, *, all_sent: bool = False) -> dict[int, float]:
        """Receive what the streams expect, and send meanwhile. Return when each had received its part."""
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
        ours = HEADER.unpack(header)
        for r, head in heads.items():
            name, theirs = self._names[r], HEADER.unpack(head)
            if theirs[0] != MAGIC:
                raise SumError(f"{name} has sent something else than values")
            if theirs[3:5] != ours[3:5]:
                raise SumError(
                    f"{name} is at another operation: number {theirs[3]} of its program, "
                    f"here number {ours[3]}"
                )
            if theirs[:6] != ours[:6]:
                raise SumError(
                    f"{name} has {theirs[5]} values of type {theirs[1]}, sent as type {theirs[2]}, where "
                    f"this worker has {ours[5]} of type {ours[1]}, sent as type {ours[2]}"
                )


def bytes_of(array: Array) -> memoryview:
    """Return the memory of a contiguous array."""
    return array.view(np.uint8).data.cast("B") if array.size else memoryview(b"")


# ---- memory ---------------------------------------------------------------------------------------------


class _Part(ctypes.Structure):
    """``struct iovec``."""

    _fields_ = (("start", ctypes.c_void_p), ("size", ctypes.c_size_t))


class Reader:
    """Reads the memory of other processes.

    ``mark`` is a random number, ``address`` where it is. Who finds it there in the memory of this process can
    read that memory.
    """

    def __init__(self) -> None:
        self._mark = ctypes.c_uint64(secrets.randbits(63) + 1)
        self.mark, self.address = self._mark.value, ctypes.addressof(self._mark)
        self._call = ctypes.CDLL(None, use_errno=True).process_vm_readv
        self._call.restype = ctypes.c_ssize_t

    def can_read(self, process: int, mark: int, address: int) -> bool:
        """Return whether the mark of a process is where it says."""
        value = np.zeros(1, np.uint64)
        try:
            self.read(process, [(address, 8)], [(address_of(value), 8)])
        except OSError:
            return False
        return int(value[0]) == mark

    def read(self, process: int, theirs: Memory, ours: Memory) -> None:
        """Copy parts of another process's memory to parts of this one's. Raises OSError."""
        while theirs:
            now = theirs[:_MOST_PARTS]
            into = _first_bytes(ours, sum(size for _, size in now))
            done = self._call(process, _array(into), len(into), _array(now), len(now), 0)
            if done <= 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number))
            theirs, ours = _rest(theirs, done), _rest(ours, done)


def _array(parts: Memory) -> ctypes.Array[_Part]:
    return (_Part * len(parts))(*(_Part(*part) for part in parts))


def _first_bytes(parts: Memory, size: int) -> Memory:
    """Return the parts of the first bytes; at most as many as a system call takes."""
    first = []
    for start, length in parts[:_MOST_PARTS]:
        if not size:
            break
        first.append((start, min(length, size)))
        size -= first[-1][1]
    return first


def _rest(parts: Memory, done: int) -> Memory:
    """Return the parts without the first bytes."""
    for place, (start, length) in enumerate(parts):
        if done < length:
            return [(start + done, length - done), *parts[place + 1 :]]
        done -= length
    return []


def address_of(array: Array) -> int:
    """Return where the values of an array begin."""
    return int(array.__array_interface__["data"][0])


class Vector:
    """All values of arrays of one type, as one vector: of which sizes, and with how many bytes a value."""

    def __init__(self, sizes: Sequence[int], itemsize: int) -> None:
        self._starts = list(itertools.accumulate(sizes, initial=0))
        self._itemsize = itemsize
        self.size = self._starts[-1]

    def parts(self, begin: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Yield where values [begin, end) are: numbers of arrays, first and last places in them."""
        which = bisect_right(self._starts, begin) - 1
        while begin < end:
            start, stop = self._starts[which : which + 2]
            if stop > begin:
                yield which, begin - start, min(end, stop) - start
                begin = min(end, stop)
            which += 1

    def memory(self, addresses: Sequence[int], begin: int, end: int) -> Memory:
        """Return the memory of values [begin, end) of arrays that begin at these addresses."""
        return [
            (addresses[which] + start * self._itemsize, (stop - start) * self._itemsize)
            for which, start, stop in self.parts(begin, end)
        ]

    def pieces(self, begin: int, end: int, most: int) -> Iterator[tuple[int, int]]:
        """Cut values [begin, end) into pieces of at most this many bytes."""
        step = most // self._itemsize
        for first in range(begin, end, step):
            yield first, min(end, first + step)

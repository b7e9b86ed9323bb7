"""Move vectors between workers for :mod:`.in_numpy`: over sockets, or from memory to memory."""

from __future__ import annotations

import ctypes
import os
import secrets
import select
import socket
import struct
import time
from collections.abc import Iterator, Sequence
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


#: Sums of fewer bytes are sent.
READ_LEAST: Final = 1 << 20

#: Bytes that are read before they are added.
READ_PIECE: Final = 256 * 1024

#: Parts of one system call.
_MOST_PARTS: Final = 64


class _Memory(ctypes.Structure):
    """``struct iovec``."""

    _fields_ = (("start", ctypes.c_void_p), ("size", ctypes.c_size_t))


class Reader:
    """Reads the memory of other processes.

    Attributes
    ----------
    mark, address : int
        A random number, and where it is. Whoever finds it there in the memory of this process can read it.
    """

    def __init__(self) -> None:
        self._mark = ctypes.c_uint64(secrets.randbits(63) + 1)
        self.mark, self.address = self._mark.value, ctypes.addressof(self._mark)
        self._call = ctypes.CDLL(None, use_errno=True).process_vm_readv
        self._call.restype = ctypes.c_ssize_t

    def can_read(self, process: int, mark: int, address: int) -> bool:
        """Tell whether the mark of a process is where it says."""
        found = np.zeros(1, np.uint64)
        try:
            self.read(process, [(address, 8)], [(address_of(found), 8)])
        except OSError:
            return False
        return int(found[0]) == mark

    def read(self, process: int, theirs: Sequence[tuple[int, int]], ours: Sequence[tuple[int, int]]) -> None:
        """Copy parts of another process's memory to parts of this one's, each an address and a size in bytes.

        Raises OSError.
        """
        there, here = list(theirs), list(ours)
        while there:
            now = there[:_MOST_PARTS]
            into = _first_bytes(here, sum(size for _, size in now))
            got = self._call(process, _list(into), len(into), _list(now), len(now), 0)
            if got <= 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number))
            there, here = _rest(there, got), _rest(here, got)


def _list(parts: list[tuple[int, int]]) -> ctypes.Array[_Memory]:
    return (_Memory * len(parts))(*(_Memory(*part) for part in parts))


def _first_bytes(parts: list[tuple[int, int]], size: int) -> list[tuple[int, int]]:
    """Return the parts of the first bytes; at most as many as a system call takes."""
    found = []
    for start, length in parts[:_MOST_PARTS]:
        if not size:
            break
        found.append((start, min(length, size)))
        size -= found[-1][1]
    return found


def _rest(parts: list[tuple[int, int]], done: int) -> list[tuple[int, int]]:
    """Return the parts without the first bytes."""
    for place, (start, length) in enumerate(parts):
        if done < length:
            return [(start + done, length - done), *parts[place + 1 :]]
        done -= length
    return []


def address_of(array: Any) -> int:
    """Return where the values of an array begin."""
    return int(array.__array_interface__["data"][0])


class Vector:
    """All values of arrays of one type, as one vector.

    Parameters
    ----------
    sizes : sequence of int
        Numbers of values of the arrays.
    itemsize : int
        Bytes of a value.
    """

    def __init__(self, sizes: Sequence[int], itemsize: int) -> None:
        self._starts = np.concatenate([[0], np.cumsum(sizes)]).astype(int).tolist()
        self._itemsize = itemsize
        self.size = self._starts[-1]

    def parts(self, begin: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Return where values [begin, end) are: numbers of arrays, first and last places in them."""
        which = int(np.searchsorted(self._starts, begin, "right")) - 1
        while begin < end:
            start, stop = self._starts[which : which + 2]
            if stop > begin:
                yield which, begin - start, min(end, stop) - start
                begin = min(end, stop)
            which += 1

    def memory(self, addresses: Sequence[int], begin: int, end: int) -> list[tuple[int, int]]:
        """Return the memory of values [begin, end) of arrays that begin at these addresses."""
        return [
            (addresses[which] + start * self._itemsize, (stop - start) * self._itemsize)
            for which, start, stop in self.parts(begin, end)
        ]

    def pieces(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """Cut values [begin, end) into pieces that stay in the processor's cache."""
        step = READ_PIECE // self._itemsize
        for first in range(begin, end, step):
            yield first, min(end, first + step)


def add_rounded(target: Any, parts: Sequence[Any], narrow: Any, *, rounds: bool) -> None:
    """Add arrays in their order, each rounded to a narrow type, and the sum, too, if it ``rounds``."""
    with np.errstate(over="ignore", invalid="ignore"):  # the program's numbers are the program's business
        if narrow is not None:
            parts = [part.astype(narrow).astype(target.dtype) for part in parts]
        np.add(parts[0], parts[1], out=target)
        for part in parts[2:]:
            np.add(target, part, out=target)
        if rounds:
            target[...] = target.astype(narrow)

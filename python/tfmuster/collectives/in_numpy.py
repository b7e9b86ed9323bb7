"""Sum arrays over the workers with numpy: the protocol of ``exchange.c`` for machines without a compiler."""

from __future__ import annotations

import os
import select
import socket
import struct
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

#: The last five fields are for workers that can read each other's memory, which numpy can't.
_HEADER: Final = struct.Struct("<IHHQQQQQQII")
_MAGIC: Final = 0x31584D54
_SMALL: Final = 192 * 1024
_LOOK_MS: Final = 200
#: Bytes that are received before they are added: so few stay in the processor's cache.
_PIECE: Final = 512 * 1024
#: Bytes from which on the memory of sums is used again: the kernel would clear each page of a new one.
_KEPT_LEAST: Final = 1024 * 1024
_MASK: Final = 2**64 - 1
#: TensorFlow's codes of the types.
TYPES: Final = {"float32": 1, "float64": 2, "int32": 3, "int64": 9, "bfloat16": 14, "float16": 19}


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


class NumpyExchange:
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
        self._number = 0
        self._introduced = False
        self._failure = self._reason = ""
        self._seconds = self._waited = self._bytes = 0.0
        self._late = [0.0] * len(names)
        self._piece = np.empty(_PIECE, np.uint8)
        self._kept: list[Any] = []

    def abort(self, reason: str) -> None:
        """End the operation that is under way, and all later ones."""
        self._reason = self._reason or reason

    def times(self) -> list[float]:
        """Return the same numbers as ``tfmuster_times``."""
        return [float(self._number), self._seconds, self._waited, self._bytes, *self._late]

    def sum(self, arrays: Sequence[Any], wire: int, key: int) -> list[Any]:
        """Return the sums of arrays of one type over the workers.

        Raises
        ------
        SumError
            A connection broke, a worker is at another operation, or :meth:`abort` was called.
        """
        if self._failure:
            raise SumError(self._failure)
        try:
            if not self._introduced:
                self._introduce()
            return self._sum(arrays, wire, key)
        except SumError as error:
            self._failure = str(error)
            raise

    def _introduce(self) -> None:
        """Tell the others, in two headers as they expect them, that this worker reads nobody's memory."""
        began = time.perf_counter()
        for turn in range(2):
            header = self._header(np.dtype("float32"), 0, turn, 0)
            streams, heads = self._begin(header, {r: [] for r in range(len(self._names)) if r != self._rank})
            late = self._move(streams, began)
            self._check_all(heads, header)
            self._move(streams, began, all_sent=True)
            if turn == 0:
                self._note_late(began, late)
        self._introduced = True

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
            heads[r] = bytearray(_HEADER.size)
            stream.into = [memoryview(heads[r])]
        return streams, heads

    def _sum(self, arrays: Sequence[Any], wire: int, key: int) -> list[Any]:
        began = time.perf_counter()
        sizes = [array.size for array in arrays]
        flat = [np.ravel(array) for array in arrays]
        if len(self._names) == 2 and not wire:
            totals = self._sum_of_two(flat, _mixed(key, sizes), began)
            return [total.reshape(array.shape) for total, array in zip(totals, arrays, strict=True)]
        vector = np.concatenate(flat) if len(flat) > 1 else flat[0]
        narrow = _narrow_type(wire) or vector.dtype
        sent = vector.astype(narrow) if wire else vector
        workers = len(self._names)
        each = -(-vector.size // workers)
        stretch = -(-each // 16) * 16
        whole = workers == 2 or sent.nbytes * (workers - 1) <= _SMALL
        starts = [min(r * stretch, vector.size) for r in range(workers + 1)]
        cuts = [slice(0, None) if whole else slice(*starts[r : r + 2]) for r in range(workers)]
        header = self._header(vector.dtype, wire, _mixed(key, sizes), vector.size)
        own = sent[cuts[self._rank]]
        theirs = {r: np.empty_like(own) for r in range(workers) if r != self._rank}
        streams, heads = self._begin(header, {r: [_bytes_of(sent[cuts[r]])] for r in theirs})
        late = self._move(streams, began)
        self._check_all(heads, header)
        for r, stream in streams.items():
            stream.into = [part for part in (_bytes_of(theirs[r]),) if part]
        self._move(streams, began)
        counted = sum(_HEADER.size + sent[cuts[r]].nbytes for r in streams)
        total = _added([own if r == self._rank else theirs[r] for r in range(workers)], vector.dtype)
        if whole:
            sums = total
        else:
            total = total.astype(narrow)
            sums_sent = np.empty_like(sent)
            sums_sent[cuts[self._rank]] = total
            for r, stream in streams.items():
                stream.out += [part for part in (_bytes_of(total),) if part]
                stream.into = [part for part in (_bytes_of(sums_sent[cuts[r]]),) if part]
            self._move(streams, began)
            counted += len(streams) * total.nbytes
            sums = sums_sent.astype(vector.dtype, copy=False)
        self._move(streams, began, all_sent=True)
        self._note(began, late, counted)
        parts = np.split(sums, np.cumsum(sizes)[:-1])
        return [part.reshape(array.shape) for part, array in zip(parts, arrays, strict=True)]

    def _sum_of_two(self, flat: list[Any], mixed: int, began: float) -> list[Any]:
        """Add the other worker's vector piece by piece, as it comes, without a copy of either one."""
        other, dtype = 1 - self._rank, flat[0].dtype
        header = self._header(dtype, 0, mixed, sum(array.size for array in flat))
        streams, heads = self._begin(header, {other: [*map(_bytes_of, flat)]})
        stream = streams[other]
        late = self._move(streams, began)
        self._check_all(heads, header)
        sums = self._memory(flat)
        piece = self._piece.view(dtype)
        for parts in _pieces([array.size for array in flat], piece.size):
            stream.into = [_bytes_of(piece[: sum(stop - start for _, start, stop in parts)])]
            self._move(streams, began)
            at = 0
            for which, start, stop in parts:
                theirs = piece[at : at + stop - start]
                np.add(flat[which][start:stop], theirs, out=sums[which][start:stop])
                at += stop - start
        self._move(streams, began, all_sent=True)
        self._note(began, late, _HEADER.size + sum(array.nbytes for array in flat))
        return sums

    def _memory(self, like: list[Any]) -> list[Any]:
        """Return arrays for sums, earlier ones if nobody has them any more."""
        free: dict[tuple[int, Any], Any] = {}
        used = []
        for kept in self._kept:
            # It is known to the list, to this variable, and as the argument that is counted.
            if sys.getrefcount(kept) == 3:
                free[kept.size, kept.dtype] = kept
            else:
                used.append(kept)
        found = []
        for array in like:
            made = free.pop((array.size, array.dtype), None)
            found.append(np.empty_like(array) if made is None else made)
        self._kept = [*used, *free.values(), *(array for array in found if array.nbytes >= _KEPT_LEAST)]
        return found

    def _header(self, dtype: Any, wire: int, mixed: int, size: int) -> bytes:
        return _HEADER.pack(_MAGIC, TYPES[dtype.name], wire, self._number, mixed, size, 0, 0, 0, 0, 0)

    def _note(self, began: float, late: dict[int, float], sent: int) -> None:
        """Count an operation that is complete."""
        self._number += 1
        self._bytes += sent
        self._note_late(began, late)

    def _note_late(self, began: float, late: dict[int, float]) -> None:
        self._seconds += time.perf_counter() - began
        self._waited += max(late.values())
        for r, seconds in late.items():
            self._late[r] += seconds

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
            self._check(self._names[r], _HEADER.unpack(head), _HEADER.unpack(header))

    def _check(self, name: str, theirs: tuple[int, ...], ours: tuple[int, ...]) -> None:
        if theirs[0] != _MAGIC:
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


def _pieces(sizes: list[int], most: int) -> Iterator[list[tuple[int, int, int]]]:
    """Cut arrays that follow each other into pieces of at most `most` values.

    A piece is a list of parts, each the number of an array, and where the part starts and stops in it.
    """
    parts: list[tuple[int, int, int]] = []
    room = most
    for which, size in enumerate(sizes):
        start = 0
        while start < size:
            stop = min(size, start + room)
            parts.append((which, start, stop))
            room -= stop - start
            start = stop
            if not room:
                yield parts
                parts, room = [], most
    if parts:
        yield parts


def _narrow_type(wire: int) -> Any:
    if wire == TYPES["bfloat16"]:
        import ml_dtypes  # a dependency of TensorFlow

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype("float16") if wire else None


def _added(parts: list[Any], dtype: Any) -> Any:
    """Add in the order of the workers."""
    total = parts[0].astype(dtype, copy=False) + parts[1].astype(dtype, copy=False)
    for part in parts[2:]:
        total += part.astype(dtype, copy=False)
    return total


def _bytes_of(array: Any) -> memoryview:
    return memoryview(array.view(np.uint8)).cast("B") if array.size else memoryview(b"")


def _mixed(key: int, sizes: list[int]) -> int:
    mixed = key & _MASK
    for size in sizes:
        mixed = (mixed ^ size) * 0x100000001B3 & _MASK
    return mixed

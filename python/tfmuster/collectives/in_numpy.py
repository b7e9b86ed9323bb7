"""Sum arrays over the workers with numpy: the protocol of ``exchange.c`` for machines without a compiler."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time
from collections.abc import Sequence
from typing import Final

import numpy as np

from .transport import (
    HEADER,
    MAGIC,
    READ_LEAST,
    READ_PIECE,
    TYPES,
    Array,
    Memory,
    Reader,
    Stream,
    Streams,
    SumError,
    Vector,
    address_of,
    bytes_of,
)

_SMALL: Final = 192 * 1024
#: Bytes that are received before they are added: so few stay in the processor's cache.
_PIECE: Final = 512 * 1024
#: Bytes from which on the memory of sums is used again: the kernel would clear each page of a new one.
_KEPT_LEAST: Final = 1024 * 1024
_MASK: Final = 2**64 - 1


class NumpyExchange(Streams):
    """The connections of one worker. If ``near``, all workers are on this machine, and may share memory."""

    def __init__(
        self, rank: int, sockets: Sequence[socket.socket | None], names: Sequence[str], *, near: bool = False
    ) -> None:
        super().__init__(rank, sockets, names)
        self._reader: Reader | None = None
        if near:
            with contextlib.suppress(AttributeError, OSError):  # a system without such a call
                self._reader = Reader()
        #: The process of each worker, if all can read the memory of all.
        self._processes: dict[int, int] = {}
        self._number = 0
        self._introduced = False
        self._failure = ""
        self._seconds = self._waited = self._bytes = 0.0
        self._late = [0.0] * len(names)
        self._received = np.empty(_PIECE, np.uint8)
        others = range(len(names)) if self._reader is not None else ()
        self._buffers = {r: np.empty(READ_PIECE, np.uint8) for r in others if r != rank}
        self._kept: list[Array] = []

    def times(self) -> list[float]:
        """Return the same numbers as ``tfmuster_times``."""
        return [float(self._number), self._seconds, self._waited, self._bytes, *self._late]

    def sum(self, arrays: Sequence[Array], wire: int, key: int) -> list[Array]:
        """Return the sums of arrays of one type over the workers. Raises SumError, and for good."""
        if self._failure:
            raise SumError(self._failure)
        try:
            if not self._introduced:
                self._introduce()
            with np.errstate(over="ignore", invalid="ignore"):  # the program's numbers are its own business
                totals = self._sum([np.ravel(array) for array in arrays], wire, key)
        except SumError as error:
            self._failure = str(error)
            raise
        return [total.reshape(array.shape) for total, array in zip(totals, arrays, strict=True)]

    def _introduce(self) -> None:
        """Tell the others where the mark is, and then whose memory this worker can read."""
        began = time.perf_counter()
        reads = 0
        everybody = (1 << len(self._names)) - 1
        for turn in range(2):
            header = self._header(np.dtype("float32"), 0, turn, 0, reads)
            streams, heads = self._begin(header, {r: [] for r in range(len(self._names)) if r != self._rank})
            late = self._move(streams, began)
            self._check_all(heads, header)
            self._move(streams, began, all_sent=True)
            fields = {r: HEADER.unpack(head) for r, head in heads.items()}
            if turn == 0:
                self._note_late(began, late)
                reader = self._reader
                if reader is not None and all(
                    theirs[7] and reader.can_read(theirs[9], theirs[7], theirs[6])
                    for theirs in fields.values()
                ):
                    reads = everybody
            # numpy takes part in memory if that of all can be read, and else lets nobody read.
            elif reads and all(theirs[8] == everybody for theirs in fields.values()):
                self._processes = {r: theirs[9] for r, theirs in fields.items()}
        self._introduced = True

    def _sum(self, flat: list[Array], wire: int, key: int) -> list[Array]:
        began = time.perf_counter()
        sizes = [array.size for array in flat]
        operation = _operation(key, sizes)
        if self._processes and sum(array.nbytes for array in flat) >= READ_LEAST:
            return self._sum_in_memory(flat, wire, operation, began)
        if len(self._names) == 2 and not wire:
            return self._sum_of_two(flat, operation, began)
        vector = np.concatenate(flat) if len(flat) > 1 else flat[0]
        narrow = _narrow_type(wire) or vector.dtype
        sent = vector.astype(narrow) if wire else vector
        workers = len(self._names)
        whole = workers == 2 or sent.nbytes * (workers - 1) <= _SMALL
        starts = _slices(vector.size, workers)
        cuts = [slice(0, None) if whole else slice(*starts[r : r + 2]) for r in range(workers)]
        header = self._header(vector.dtype, wire, operation, vector.size)
        ours = sent[cuts[self._rank]]
        received = {r: np.empty_like(ours) for r in range(workers) if r != self._rank}
        streams, heads = self._begin(header, {r: [bytes_of(sent[cuts[r]])] for r in received})
        late = self._move(streams, began)
        self._check_all(heads, header)
        for r, stream in streams.items():
            stream.into = [part for part in (bytes_of(received[r]),) if part]
        self._move(streams, began)
        counted = sum(HEADER.size + sent[cuts[r]].nbytes for r in streams)
        parts = [ours if r == self._rank else received[r] for r in range(workers)]
        sums = np.empty(ours.shape, vector.dtype)
        _add([part.astype(vector.dtype, copy=False) for part in parts], sums)
        if not whole:
            total = sums.astype(narrow)
            gathered = np.empty_like(sent)
            gathered[cuts[self._rank]] = total
            for r, stream in streams.items():
                stream.out += [part for part in (bytes_of(total),) if part]
                stream.into = [part for part in (bytes_of(gathered[cuts[r]]),) if part]
            self._move(streams, began)
            counted += len(streams) * total.nbytes
            sums = gathered.astype(vector.dtype, copy=False)
        self._move(streams, began, all_sent=True)
        self._note(began, late, counted)
        return np.split(sums, np.cumsum(sizes)[:-1])

    def _sum_of_two(self, flat: list[Array], operation: int, began: float) -> list[Array]:
        """Add the other worker's vector piece by piece, as it comes, without a copy of either one."""
        other, dtype = 1 - self._rank, flat[0].dtype
        vector = Vector([array.size for array in flat], dtype.itemsize)
        header = self._header(dtype, 0, operation, vector.size)
        streams, heads = self._begin(header, {other: [*map(bytes_of, flat)]})
        stream = streams[other]
        late = self._move(streams, began)
        self._check_all(heads, header)
        sums = self._memory(flat)
        buffer = self._received.view(dtype)
        for begin, end in vector.pieces(0, vector.size, _PIECE):
            stream.into = [bytes_of(buffer[: end - begin])]
            self._move(streams, began)
            at = 0
            for which, start, stop in vector.parts(begin, end):
                theirs = buffer[at : at + stop - start]
                np.add(flat[which][start:stop], theirs, out=sums[which][start:stop])
                at += stop - start
        self._move(streams, began, all_sent=True)
        self._note(began, late, HEADER.size + sum(array.nbytes for array in flat))
        return sums

    def _sum_in_memory(self, flat: list[Array], wire: int, operation: int, began: float) -> list[Array]:
        """Add this worker's slice of all vectors, and read the others' sums."""
        dtype, sums = flat[0].dtype, self._memory(flat)
        vector = Vector([array.size for array in flat], dtype.itemsize)
        # The addresses follow the header. Those of the others are read after their headers are checked.
        table = np.array([address_of(array) for array in (*flat, *sums)], np.uint64)
        header = self._header(dtype, wire, operation, vector.size)
        streams, heads = self._begin(header, {r: [bytes_of(table)] for r in self._processes})
        late = self._move(streams, began)
        self._check_all(heads, header)
        tables = {r: np.empty_like(table) for r in streams}
        for r, stream in streams.items():
            stream.into = [bytes_of(tables[r])]
        self._move(streams, began, all_sent=True)
        cuts = _slices(vector.size, len(self._names))
        inputs = {r: addresses[: len(flat)].tolist() for r, addresses in tables.items()}
        self._add_in_memory(vector, inputs, flat, sums, wire)
        self._wait_for_all(streams, began)
        ours = table[len(flat) :].tolist()
        for r, addresses in tables.items():
            begin, end = cuts[r : r + 2]
            outputs = addresses[len(flat) :].tolist()
            self._read(r, vector.memory(outputs, begin, end), vector.memory(ours, begin, end))
        self._wait_for_all(streams, began)  # nobody may change what another one still reads
        self._note(began, late, len(streams) * (HEADER.size + table.nbytes + 2))
        return sums

    def _add_in_memory(
        self, vector: Vector, inputs: dict[int, list[int]], flat: list[Array], sums: list[Array], wire: int
    ) -> None:
        """Add this worker's slice of all vectors. The others' arrays begin at the addresses of ``inputs``."""
        workers, dtype, narrow = len(self._names), flat[0].dtype, _narrow_type(wire)
        begin, end = _slices(vector.size, workers)[self._rank : self._rank + 2]
        buffers = {r: self._buffers[r].view(dtype) for r in inputs}
        for first, last in vector.pieces(begin, end, READ_PIECE):
            for r, buffer in buffers.items():
                into = [(address_of(buffer), (last - first) * dtype.itemsize)]
                self._read(r, vector.memory(inputs[r], first, last), into)
            at = 0
            for which, start, stop in vector.parts(first, last):
                length = stop - start
                parts = [
                    flat[which][start:stop] if r == self._rank else buffers[r][at : at + length]
                    for r in range(workers)
                ]
                total = sums[which][start:stop]
                if narrow is not None:
                    parts = [part.astype(narrow).astype(dtype) for part in parts]
                _add(parts, total)
                if narrow is not None and workers > 2:
                    total[...] = total.astype(narrow)
                at += length

    def _read(self, rank: int, theirs: Memory, ours: Memory) -> None:
        assert self._reader is not None
        try:
            self._reader.read(self._processes[rank], theirs, ours)
        except OSError as error:
            raise SumError(f"the memory of {self._names[rank]} can't be read ({error.strerror})") from error

    def _wait_for_all(self, streams: dict[int, Stream], began: float) -> None:
        """Send a byte to all others, and wait for theirs."""
        for stream in streams.values():
            stream.out, stream.into = [memoryview(b"\1")], [memoryview(bytearray(1))]
        self._move(streams, began, all_sent=True)

    def _memory(self, like: list[Array]) -> list[Array]:
        """Return arrays for sums, earlier ones if nobody has them any more."""
        free: dict[tuple[int, np.dtype[np.generic]], Array] = {}
        used = []
        for kept in self._kept:
            # It is known to the list, to this variable, and as the argument that is counted.
            if sys.getrefcount(kept) == 3:
                free[kept.size, kept.dtype] = kept
            else:
                used.append(kept)
        sums = []
        for array in like:
            earlier = free.pop((array.size, array.dtype), None)
            sums.append(np.empty_like(array) if earlier is None else earlier)
        self._kept = [*used, *free.values(), *(array for array in sums if array.nbytes >= _KEPT_LEAST)]
        return sums

    def _header(
        self, dtype: np.dtype[np.generic], wire: int, operation: int, size: int, reads: int = 0
    ) -> bytes:
        mark, address = (self._reader.mark, self._reader.address) if self._reader else (0, 0)
        fields = (MAGIC, TYPES[dtype.name], wire, self._number, operation, size, address, mark, reads)
        return HEADER.pack(*fields, os.getpid(), 0)

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


def _slices(size: int, workers: int) -> list[int]:
    """Return where the workers' slices of a vector begin, and its end."""
    share = -(-size // workers)
    stretch = -(-share // 16) * 16
    return [min(r * stretch, size) for r in range(workers + 1)]


def _narrow_type(wire: int) -> np.dtype[np.generic] | None:
    if wire == TYPES["bfloat16"]:
        import ml_dtypes  # a dependency of TensorFlow

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype("float16") if wire else None


def _add(parts: list[Array], total: Array) -> None:
    """Add in the order of the workers."""
    np.add(parts[0], parts[1], out=total)
    for part in parts[2:]:
        np.add(total, part, out=total)


def _operation(key: int, sizes: list[int]) -> int:
    """Return a number that tells this operation from others: a digest of its key and sizes."""
    digest = key & _MASK
    for size in sizes:
        digest = (digest ^ size) * 0x100000001B3 & _MASK
    return digest

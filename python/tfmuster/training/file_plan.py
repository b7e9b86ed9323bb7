"""Decide which rows of which files are in each global batch, the same for every number of workers.

Files are cut into *chunks*, runs of rows that are read at once. In each epoch the chunks are put into a new
order, and so are the rows of each chunk. The rows in this order, all but the last partial batch, are cut into
*lanes* of consecutive rows, and each global batch takes its rows from all lanes: the first rows of the batch
from the first lane, and so on. So a worker, which gets consecutive rows of each batch, needs consecutive rows
of the order, and opens only the files that these are in.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..keras_compat.rows import part_of, rows_to_read_of, steps_in_epoch
from .readers import Chunk

#: Lanes of a batch. Workers whose number divides it share no lane.
LANES = 24

_Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Piece:
    """Some rows of a chunk: its number, and their numbers in it."""

    chunk: int
    rows: _Numbers


@dataclass(frozen=True)
class FilePlan:
    """The global batches of all epochs."""

    chunks: Sequence[Chunk]
    batch_size: int
    seed: int
    shuffle: bool = True
    drop_remainder: bool = False

    @functools.cached_property
    def rows(self) -> int:
        """Rows of all files."""
        return sum(chunk.rows for chunk in self.chunks)

    @property
    def steps(self) -> int:
        """Global batches in one epoch."""
        return steps_in_epoch(self.rows, self.batch_size, drop_remainder=self.drop_remainder)

    def size_of(self, step: int) -> int:
        """Rows of the global batch number ``step`` of an epoch."""
        return min(self.rows - step * self.batch_size, self.batch_size)

    def epoch(self, epoch: int, part: int = 0, parts: int = 1, first_step: int = 0) -> Iterator[list[Piece]]:
        """Yield the pieces that make up one worker's rows of each global batch, in their order.

        If the worker has no rows of a batch, one row is given, which must not count.
        """
        order = np.arange(len(self.chunks))
        if self.shuffle:
            order = np.random.default_rng((self.seed, epoch)).permutation(order)
        ends = np.cumsum([self.chunks[chunk].rows for chunk in order])
        for step in range(first_step, self.steps):
            start, stop = rows_to_read_of(*part_of(self.size_of(step), part, parts))
            pieces: list[Piece] = []
            for first, last in self._places(step, start, stop):
                pieces += self._pieces(epoch, order, ends, first, last)
            yield pieces

    def _places(self, step: int, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield where in the epoch's order the rows [start, stop) of a global batch stand, as ranges."""
        full = self.rows // self.batch_size
        if step == full:
            yield full * self.batch_size + start, full * self.batch_size + stop
            return
        lanes = min(LANES, self.batch_size)
        for lane in range(lanes):
            begin, end = part_of(self.batch_size, lane, lanes)
            low, high = max(begin, start), min(end, stop)
            if low < high:
                place = full * begin + step * (end - begin) - begin
                yield place + low, place + high

    def _pieces(self, epoch: int, order: _Numbers, ends: _Numbers, first: int, last: int) -> Iterator[Piece]:
        index = int(np.searchsorted(ends, first, side="right"))
        while first < last:
            number = int(order[index])
            begin = int(ends[index]) - self.chunks[number].rows
            stop = min(last, int(ends[index]))
            yield Piece(number, self._order_in(epoch, number)[first - begin : stop - begin])
            first, index = stop, index + 1

    def _order_in(self, epoch: int, chunk: int) -> _Numbers:
        rows = self.chunks[chunk].rows
        return _permuted(rows, (self.seed, epoch, chunk)) if self.shuffle else np.arange(rows)


@functools.lru_cache(maxsize=4 * LANES)
def _permuted(rows: int, seed: tuple[int, ...]) -> _Numbers:
    return np.random.default_rng(seed).permutation(rows)

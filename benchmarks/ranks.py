"""Many workers of a sum in one process: whether the sums are right, and what each worker sends.

Usage: ranks.py [--ranks 2,4,16,64]

Each worker is a thread with numpy, which speaks the protocol of the C code, and a socket pair leads to each
other one. Small vectors travel whole, larger ones in slices. Fails if a sum differs by a bit from adding in
the order of the workers, if two workers differ, or if one sends more than 2 (n - 1) / n times the vector, its
header and the padding of the slices.

messages    parts that a worker sends in one sum
waits       times that it waits for others, one after the other
bytes       that it sends, over those of the vector
"""

from __future__ import annotations

import argparse
import resource
import socket
import threading
from typing import Any

import numpy as np

from tfmuster.collectives import in_numpy
from tfmuster.collectives.transport import Stream


class Counted(in_numpy.NumpyExchange):
    """A worker that counts what it sends."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.messages = self.waits = 0
        self._left: dict[int, int] = {}

    def _move(self, streams: dict[int, Stream], began: float, **how: Any) -> dict[int, float]:
        new = sum(len(stream.out) > self._left.get(rank, 0) for rank, stream in streams.items())
        self.messages += new
        self.waits += new > 0
        late = super()._move(streams, began, **how)
        self._left = {rank: len(stream.out) for rank, stream in streams.items()}
        return late


def sums_of(ranks: int, size: int) -> list[Counted]:
    """Let so many workers add one vector each, check the sums, and return the workers."""
    ends: list[list[socket.socket | None]] = [[None] * ranks for _ in range(ranks)]
    for rank in range(ranks):
        for other in range(rank):
            pair = socket.socketpair()
            for end in pair:
                end.setblocking(False)
            ends[rank][other], ends[other][rank] = pair
    names = [f"worker {rank}" for rank in range(ranks)]
    workers = [Counted(rank, ends[rank], names) for rank in range(ranks)]
    vectors = [np.random.default_rng(rank).normal(size=size).astype("float32") for rank in range(ranks)]
    found: list[Any] = [None] * ranks

    def work(rank: int) -> None:
        worker = workers[rank]
        worker.sum([vectors[rank][:0]], 0, 0)  # also introduces the workers to each other
        worker.messages = worker.waits = 0
        (found[rank],) = worker.sum([vectors[rank]], 0, 0)

    threads = [threading.Thread(target=work, args=(rank,), daemon=True) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    expected = sum(vectors[1:], start=vectors[0])
    if not all(np.array_equal(each, expected) for each in found):
        raise SystemExit(f"{ranks} workers, {size} values: a sum is wrong")
    for end in filter(None, (end for own in ends for end in own)):
        end.close()
    return workers


def main() -> int:
    """Print a table; 1 if a worker sends more than it should."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=lambda text: list(map(int, text.split(","))), default=[2, 4, 16, 64])
    given = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    too_much = 0
    print("| workers | values | messages | waits | bytes | 2 (n - 1) / n |")
    print("|---|---|---|---|---|---|")
    for ranks in given.ranks:
        for size in (100, 1_000_000):
            workers = sums_of(ranks, size)
            sent = max(worker.times()[3] for worker in workers)
            least = 2 * (ranks - 1) / ranks
            whole = ranks == 2 or 4 * size * (ranks - 1) <= in_numpy._SMALL
            allowed = (ranks - 1 if whole else least) * 4 * size + 2 * (ranks - 1) * 64 * 3
            too_much += sent > allowed
            messages, waits = workers[0].messages, workers[0].waits
            print(f"| {ranks} | {size:,} | {messages} | {waits} | {sent / (4 * size):.3f} | {least:.3f} |")
    return int(too_much > 0)


if __name__ == "__main__":
    raise SystemExit(main())

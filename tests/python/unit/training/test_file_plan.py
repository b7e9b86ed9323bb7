"""Which rows of which files are in each batch, and which files each worker opens."""

from __future__ import annotations

import numpy as np
import pytest

from tfmuster.training.file_plan import Chunk, FilePlan


def rows_of(
    plan: FilePlan, epoch: int, part: int = 0, parts: int = 1, first: int = 0
) -> list[list[tuple[str, int]]]:
    """File and number of each row, by batch."""
    return [
        [
            (plan.chunks[piece.chunk].path, plan.chunks[piece.chunk].first + int(row))
            for piece in pieces
            for row in piece.rows
        ]
        for pieces in plan.epoch(epoch, part, parts, first)
    ]


def files(count: int, rows: int = 50, chunk: int = 16) -> list[Chunk]:
    """Chunks of files of about so many rows each."""
    found = []
    for number in range(count):
        total = rows + 3 * number
        found += [
            Chunk(f"file-{number}", min(chunk, total - first), first) for first in range(0, total, chunk)
        ]
    return found


@pytest.mark.parametrize("count", [1, 7, 8])
@pytest.mark.parametrize("batch,drop", [(1, False), (7, False), (64, False), (30, True), (1000, False)])
@pytest.mark.parametrize("shuffle", [True, False])
def test_workers_share_the_batches_of_one_process(count: int, batch: int, drop: bool, shuffle: bool) -> None:
    plan = FilePlan(files(count), batch, 5, shuffle, drop)
    for epoch in (0, 3):
        alone = rows_of(plan, epoch)
        assert len(alone) == plan.steps
        seen = [row for rows in alone for row in rows]
        assert len(set(seen)) == len(seen) == (plan.steps * batch if drop else plan.rows)
        for workers in (2, 3, 4):
            parts = [rows_of(plan, epoch, worker, workers) for worker in range(workers)]
            for step, rows in enumerate(alone):
                each = [part[step] for part in parts]
                if len(rows) >= workers:
                    assert [row for own in each for row in own] == rows
                else:  # some have no rows of their own and read one that does not count
                    assert all(len(own) == 1 for own in each)


def test_orders_differ_by_epoch_and_seed_only() -> None:
    plan = FilePlan(files(4), 20, 1)
    assert rows_of(plan, 0) == rows_of(FilePlan(files(4), 20, 1), 0)
    assert rows_of(plan, 0) != rows_of(plan, 1)
    assert rows_of(plan, 0) != rows_of(FilePlan(files(4), 20, 2), 0)
    assert rows_of(plan, 2, 1, 3, first=4) == rows_of(plan, 2, 1, 3)[4:]
    assert [row for rows in rows_of(FilePlan([Chunk("a", 9)], 4, 0, shuffle=False), 0) for row in rows][
        8
    ] == (
        "a",
        8,
    )


def test_each_worker_opens_only_its_files() -> None:
    plan = FilePlan(files(8, rows=200), 24, 1)
    opened = [{path for rows in rows_of(plan, 0, worker, 4)[:-1] for path, _ in rows} for worker in range(4)]
    rows = [sum(len(own) for own in rows_of(plan, 0, worker, 4)) for worker in range(4)]
    assert max(rows) - min(rows) <= 4
    # Chunks are shuffled, so a worker needs parts of most files. Without shuffling, a quarter of them.
    assert all(opened)
    plan = FilePlan(files(8, rows=200), 24, 1, shuffle=False)
    opened = [{path for rows in rows_of(plan, 0, worker, 4)[:-1] for path, _ in rows} for worker in range(4)]
    assert all(len(paths) <= 3 for paths in opened)
    chunks = [
        {p.chunk for ps in FilePlan(files(8, rows=200), 24, 1).epoch(0, w, 2) for p in ps} for w in range(2)
    ]
    assert len(chunks[0] & chunks[1]) <= 3


def test_rows_of_a_chunk_are_shuffled() -> None:
    rows = [number for batch in rows_of(FilePlan([Chunk("a", 1000)], 10, 3), 0) for _, number in batch]
    assert abs(np.corrcoef(rows, np.arange(1000))[0, 1]) < 0.1

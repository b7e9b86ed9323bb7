"""Which rows of a batch each worker reads."""

from __future__ import annotations

import pytest

from tfmuster.digits.reporting import shard_description
from tfmuster.keras_compat.rows import part_of, steps_in_epoch


@pytest.mark.parametrize("rows", [0, 1, 2, 7, 16, 128, 1000])
@pytest.mark.parametrize("parts", [1, 2, 3, 4, 7])
def test_parts_cover_every_row_once_and_evenly(rows, parts):
    spans = [part_of(rows, part, parts) for part in range(parts)]
    assert [row for start, stop in spans for row in range(start, stop)] == list(range(rows))
    sizes = [stop - start for start, stop in spans]
    assert max(sizes) - min(sizes) <= 1


def test_steps_in_epoch():
    assert steps_in_epoch(100, 10) == 10
    assert steps_in_epoch(101, 10) == 11
    assert steps_in_epoch(101, 10, drop_remainder=True) == 10


def test_shard_description_says_which_rows():
    assert shard_description(10_000, 128, worker=1, workers=2) == (
        "worker 1 of 2 reads rows 64-127 of each global batch of 128, and rows 8-15 of the last one of 16"
    )
    assert shard_description(128, 64, worker=0, workers=1) == (
        "worker 0 of 1 reads rows 0-63 of each global batch of 64"
    )
    assert shard_description(65, 64, worker=0, workers=2).endswith("no rows of the last one of 1")
    assert "rows 32-63 of" in shard_description(64, 64, worker=1, workers=2, replicas_per_worker=2)

"""Rows of all workers, gathered over their own connections and by TensorFlow's collectives."""

from __future__ import annotations

import pytest

from support.jobs import run_job, succeeded


@pytest.mark.slow
@pytest.mark.parametrize("communication", ["auto", "tensorflow"])
@pytest.mark.parametrize("workers", [2, 3])
def test_rows_of_all_types_are_gathered_bit_by_bit(workers: int, communication: str) -> None:
    job = run_job("gathering.py", workers, env={"TFMUSTER_COMMUNICATION": communication})
    for done in succeeded(job):
        assert done.stdout.splitlines()[-1] == f"all equal {communication == 'auto'}"

"""Sums over the workers have the bits of a sequential sum, whoever adds in C or in numpy."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[1] / "programs" / "sum_bits.py"


@pytest.mark.skipif(not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="no C compiler")
@pytest.mark.parametrize(
    "workers",
    [
        *("0 0", "0 0 0", "0 0 0 0", "0 0 --numpy 1", "0 0 0 --numpy 0 1 2", "0 0 0 0 --numpy 1 2"),
        *("0 1 0 1", "0 0 1 2", "0 0 0 1 1", "0 0 1 1 --numpy 2"),
    ],
)
def test_sums_are_equal_to_a_sequential_sum(workers: str) -> None:
    """The machine of each worker, and which of them add with numpy."""
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "--machines", *workers.split()],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="no C compiler")
@pytest.mark.parametrize("way", ["C", "numpy"])
@pytest.mark.parametrize("how", ["killed", "frozen"])
def test_a_worker_that_ends_while_its_memory_is_read_is_named(how: str, way: str) -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAM.with_name("sum_ends.py")), how, way],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    said, _, seconds = done.stdout.strip().partition("|")
    assert "worker 1" in said, done.stdout + done.stderr
    assert ("is frozen" in said) == (how == "frozen")
    assert float(seconds) < 5


@pytest.mark.parametrize(("workers", "found"), [(64, "equal"), (65, "none")])
def test_up_to_64_workers_are_connected(workers: int, found: str) -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAM.with_name("many_sums.py")), str(workers)],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.stdout.strip() == found, done.stderr
    assert ("connect at most 64 tasks" in done.stderr) == (found == "none")

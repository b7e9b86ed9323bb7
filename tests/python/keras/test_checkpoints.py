"""A training that is interrupted ends as if it had not been, bit for bit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from support.jobs import run_job, succeeded


def final(folder: Path, worker: int = 0) -> dict[str, np.ndarray]:
    with np.load(folder / f"result-{worker}.npz") as file:
        return dict(file)


@pytest.mark.slow
@pytest.mark.timeout(200)
@pytest.mark.parametrize(
    ("workers", "kind", "every", "die_at"),
    [
        (0, "numpy", "epoch", [15, 25]),
        (0, "numpy", 4, [3, 15, 27]),
        (0, "dataset", 3, [14, 16]),
        (0, "repeated", 4, [13, 30]),
        (0, "executions", 6, [13]),
        (2, "numpy", 4, [15, 27]),
        (2, "dataset", 3, [14]),
        (2, "repeated", "epoch", [13]),
    ],
)
def test_bitwise_equal(tmp_path: Path, workers: int, kind: str, every: int | str, die_at: list[int]) -> None:
    undisturbed, disturbed = tmp_path / "undisturbed", tmp_path / "disturbed"
    succeeded(run_job("resuming.py", workers, undisturbed, kind, every))
    succeeded(run_job("resuming.py", workers, disturbed, kind, every, *die_at))
    expected = final(undisturbed)
    assert expected.keys() >= {"loss", "accuracy", "arr_0"}
    for worker in range(max(workers, 1)):
        for name, value in final(disturbed, worker).items():
            np.testing.assert_array_equal(value, expected[name], err_msg=f"worker {worker}: {name}")
    assert len(list(disturbed.glob("*.checkpoint"))) == 2
    assert not list(disturbed.glob("*.part"))


def test_the_import_that_it_needs_is_quiet(tmp_path: Path) -> None:
    code = f"import tfmuster; tfmuster.checkpoint_callback({str(tmp_path)!r})"
    environ = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True, env=environ
    )
    assert done.stdout == done.stderr == ""

"""A bit that flips in a sum of gradients never goes into a result."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from support.launching import nothing_left, tfmuster
from support.paths import PROGRAMS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.fresh]


def test_the_job_ends_or_goes_back_to_where_all_agreed(tmp_path: Path) -> None:
    library = tmp_path / "flip.so"
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-o", library, PROGRAMS / "flip.c", "-ldl"], check=True, timeout=60
    )

    def train(*options: object, **variables: str) -> subprocess.CompletedProcess[str]:
        command = ["launch", "-n", 2, "--seed", 1, *options, PROGRAMS / "flipped.py"]
        return tfmuster(*command, cwd=tmp_path, limit=120, **variables)

    flipping = {"FLIP": "1", "LD_PRELOAD": str(library)}
    whole = train()
    assert whole.returncode == 0, whole.stderr
    ended = train(**flipping)
    assert ended.returncode == 1
    said = "The weights of worker 1 differ from those of worker 0 since epoch 3: sequential/dense/kernel"
    assert said in ended.stderr, ended.stderr
    assert "memory or a network has changed bits" in ended.stderr
    resumed = train("--max-restarts", 1, **flipping)
    assert resumed.returncode == 0, resumed.stderr
    assert "restart 1 of 1" in resumed.stderr and "resumes after step 8: epoch 3, step 0" in resumed.stdout
    results = [set(re.findall(r"weights: (\S+)", done.stdout)) for done in (whole, resumed)]
    assert results[0] == results[1] and len(results[0]) == 1
    nothing_left(tmp_path)

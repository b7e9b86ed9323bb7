"""Jobs with a release of Keras or TensorFlow that lacks names of the register."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from support.launching import python, tfmuster
from support.paths import PROGRAMS
from tfmuster.keras_compat import seams
from tfmuster.system.register import Seam

# A forked program has its hooks before its first line.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(150), pytest.mark.fresh]

PROGRAM = PROGRAMS / "without_name.py"
OPTIONAL = [name for name, row in vars(seams).items() if isinstance(row, Seam) and not row.essential]


def weights_in(output: str) -> list[list[float]]:
    return [json.loads(line) for line in re.findall(r"weights (\[.*\])", output)]


def test_without_all_optional_names_the_weights_are_those_of_one_process(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
    alone = python(PROGRAM, cwd=one, limit=60)
    assert alone.returncode == 0, alone.stdout + alone.stderr
    done = tfmuster("launch", "--all-output", "-n", 2, PROGRAM, *OPTIONAL, cwd=two, limit=120)
    output = done.stdout + done.stderr
    assert done.returncode == 0, output
    for name in OPTIONAL:
        # Each worker says so once.
        assert output.count(f"because {getattr(seams, name)} is not as expected: ") == 2
    several = weights_in(output)
    assert len(several) == 2
    np.testing.assert_allclose(several, weights_in(alone.stdout) * 2, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["CONTEXT", "REDUCE_VALUES"], ids=["TensorFlow", "Keras"])
def test_without_an_essential_name_a_job_ends_before_its_first_step(tmp_path: Path, name: str) -> None:
    """`test_seams.py` of ``keras/`` hides all of them in turn."""
    done = tfmuster("launch", "--all-output", "-n", 2, PROGRAM, name, cwd=tmp_path, limit=120)
    output = done.stdout + done.stderr
    assert done.returncode in (1, 2), output
    assert f"found: {getattr(seams, name)}: it is missing" in output
    assert "replaced []" in output
    assert weights_in(output) == []

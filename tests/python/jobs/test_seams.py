"""Jobs with a release of Keras or TensorFlow that lacks a name of the register."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from support.launching import python, tfmuster
from support.paths import PROGRAMS
from tfmuster.keras_compat import seams
from tfmuster.keras_compat.register import Seam

pytestmark = [pytest.mark.slow, pytest.mark.timeout(150)]

PROGRAM = PROGRAMS / "without_name.py"
OPTIONAL = [name for name, row in vars(seams).items() if isinstance(row, Seam) and not row.essential]


def weights_in(output: str) -> list[list[float]]:
    return [json.loads(line) for line in re.findall(r"weights (\[.*\])", output)]


@pytest.fixture(scope="module")
def one_process(tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    done = python(PROGRAM, cwd=tmp_path_factory.mktemp("one"), limit=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return weights_in(done.stdout)[0]


@pytest.mark.parametrize("name", OPTIONAL)
def test_without_an_optional_name_the_weights_are_those_of_one_process(
    tmp_path: Path, name: str, one_process: list[float]
) -> None:
    done = tfmuster("launch", "-n", 2, PROGRAM, name, cwd=tmp_path, limit=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"because {getattr(seams, name)} is not as expected: " in done.stdout + done.stderr
    several = weights_in(done.stdout)
    assert len(several) == 2
    np.testing.assert_allclose(several, [one_process] * 2, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["REDUCE_VALUES", "COLLECTIVE_KEYS", "MODEL_STRATEGY", "CONTEXT"])
def test_without_an_essential_name_a_job_ends_before_its_first_step(tmp_path: Path, name: str) -> None:
    """`test_seams.py` of ``keras/`` hides all of them in turn."""
    done = tfmuster("launch", "-n", 2, PROGRAM, name, cwd=tmp_path, limit=120)
    output = done.stdout + done.stderr
    assert done.returncode in (1, 2), output
    assert f"{getattr(seams, name)}" in output
    assert "replaced []" in output
    assert weights_in(output) == []

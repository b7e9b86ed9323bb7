"""The programs of the gallery: one process and two workers print the same."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.paths import ROOT

GALLERY = ROOT / "examples" / "gallery"
PROGRAMS = sorted(path.name for path in GALLERY.iterdir() if path.suffix in (".py", ".R"))
ENVIRONMENT = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "RETICULATE_PYTHON": sys.executable}
ENVIRONMENT.pop("TF_CONFIG", None)


def numbers(command: list[object], folder: Path) -> list[float]:
    """Run a program, and return the numbers of the line that begins with its loss."""
    done = subprocess.run(
        list(map(str, command)), cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stdout[-1500:] + done.stderr[-3000:]
    line = next(line for line in done.stdout.splitlines() if re.search(r"(^|\| )loss ", line))
    return [float(number) for number in re.findall(r"-?\d+\.\d+", line)]


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.timeout(420)
@pytest.mark.parametrize("program", PROGRAMS)
def test_same_on_two_workers(program: str, tmp_path: Path) -> None:
    interpreter = sys.executable if program.endswith(".py") else shutil.which("Rscript")
    if interpreter is None:
        pytest.skip("R is not installed")
    alone = numbers([interpreter, GALLERY / program], tmp_path)
    launch = [sys.executable, "-m", "tfmuster", "launch", "-n", "2", "--only-chief", GALLERY / program]
    assert alone
    # Rounding differs, and Adam magnifies it.
    assert numbers(launch, tmp_path) == pytest.approx(alone, abs=5e-3, rel=1e-2)


def test_five_programs_that_are_not_about_digits() -> None:
    text = (GALLERY / "README.md").read_text()
    assert len(PROGRAMS) == 5
    assert all(f"[{program}]({program})" in text for program in PROGRAMS)
    assert not any("mnist" in (GALLERY / program).read_text().lower() for program in PROGRAMS)

"""The first programs that a reader sees, of the quickstart and of the README, run as they stand."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tfmuster
from support.paths import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.timeout(320)]
ENVIRONMENT = {**os.environ, "RETICULATE_PYTHON": sys.executable}
ENVIRONMENT.pop("TF_CONFIG", None)
LANGUAGES = pytest.mark.parametrize("language", ["python", "r"])


def block(page: str, heading: str, language: str) -> str:
    """The first program of this language after a heading."""
    text = (ROOT / page).read_text(encoding="utf-8").partition(heading)[2]
    found = re.search(rf"^```{language}\n(.*?)^```", text, re.M | re.S)
    assert found is not None
    return found[1]


def run(command: list[str], folder: Path) -> str:
    done = subprocess.run(
        command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return done.stdout


@LANGUAGES
def test_quickstart(language: str, tmp_path: Path) -> None:
    if language == "r" and shutil.which("Rscript") is None:
        pytest.skip("R is not installed")
    program = "train.py" if language == "python" else "train.R"
    (tmp_path / program).write_text(block("docs/quickstart.md", "## 2. Put two lines", language))
    run([sys.executable, "-m", "tfmuster", "launch", "-n", "2", program], tmp_path)
    (done,) = tfmuster.runs(tmp_path / "runs")
    assert done.model_path.exists()
    history = done.history()
    assert len(history["loss"]) == 5
    assert history["accuracy"][-1] > 0.8


@LANGUAGES
def test_readme(language: str, tmp_path: Path) -> None:
    if language == "r" and shutil.which("Rscript") is None:
        pytest.skip("R is not installed")
    program = tmp_path / ("first.py" if language == "python" else "first.R")
    say = "print('accuracy', accuracy)\n" if language == "python" else ""
    heading = "## In Python" if language == "python" else "## In R"
    program.write_text(block("README.md", heading, language) + say)
    said = run([sys.executable if language == "python" else "Rscript", program.name], tmp_path)
    accuracies = re.findall(r"(?:accuracy|\[1\]) (0\.\d+)", said)
    assert accuracies, said
    assert float(accuracies[-1]) > 0.8

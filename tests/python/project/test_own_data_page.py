"""The programs of the vignette "Your own data": R and Python, one process and two workers, train the same."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from support.paths import ROOT

PAGE = ROOT / "vignettes" / "your-own-data.Rmd"
ENVIRONMENT = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "RETICULATE_PYTHON": sys.executable}
ENVIRONMENT.pop("TF_CONFIG", None)
# What a program prints of each chunk that trains.
LOSSES = {
    "python": "print('LOSSES', {label!r}, *history.history['loss'])",
    "r": "with(history, cat(paste(c('LOSSES', {label!r}, value[metric == 'loss' & data == 'training']), "
    "collapse = ' '), '\\n', sep = ''))",
}
# Own rows that are not marked as such: the second worker has another part.
UNMARKED = """
from tfmuster.errors import DataError
try:
    make_model().fit(part[:, :3], part[:, 3], batch_size=64, verbose=0)
except DataError as error:
    print("REFUSED", error.fields["reason"])
"""


class Chunk(NamedTuple):
    """A chunk of the page."""

    label: str
    options: str
    code: str

    @property
    def runs(self) -> bool:
        """Whether the Python packages are there that the chunk needs."""
        return all(map(importlib.util.find_spec, re.findall(r'has\("(\w+)"\)', self.options)))


def chunks(language: str) -> dict[str, Chunk]:
    found = re.findall(
        rf"^```\{{{language} ([\w-]+)(.*?)\}}\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    return {label: Chunk(label, options, code) for label, options, code in found}


def program(language: str, name: str) -> str:
    """Return the chunks that a reader would put into one file, each followed by a line that prints losses."""
    trains = [chunk for chunk in chunks(language).values() if "loss = TRUE" in chunk.options and chunk.runs]
    lines = [chunks(language)[name].code]
    for chunk in trains:
        lines += [chunk.code, LOSSES[language].format(label=chunk.label.removesuffix("-python"))]
    return "\n".join(lines) + "\n"


def run(command: list[object], folder: Path) -> str:
    done = subprocess.run(
        list(map(str, command)), cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stdout[-1500:] + done.stderr[-3000:]
    return done.stdout


def losses(output: str) -> dict[str, list[float]]:
    lines = re.findall(r"LOSSES (\S+) (.+)", output)
    return {label: [float(loss) for loss in numbers.split()] for label, numbers in lines}


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.timeout(620)
def test_same_on_two_workers_in_both_languages(tmp_path: Path) -> None:
    python = chunks("python")
    page = program("python", "program-python")
    (tmp_path / "own.py").write_text(page + UNMARKED)
    (tmp_path / "bad.csv").write_text("area,rooms,age,price\n1,2,3,4\n1,2,3\n")
    alone = tmp_path / "alone.py"
    alone.write_text("\n".join([python["make-data"].code, page, python["refused-python"].code]))
    output = run([sys.executable, alone], tmp_path)
    expected = losses(output)
    assert "bad-line" in output and "bad.csv" in output
    assert len(expected) >= 7
    assert all(last < first for first, last in expected.values())

    shutil.rmtree(tmp_path / "state-python")
    launch = [sys.executable, "-m", "tfmuster", "launch", "-n", "2", "--all-output"]
    output = run([*launch, "own.py"], tmp_path)
    assert output.count("REFUSED workers-differ") == 2
    several = losses(output)
    own = several.pop("own-rows")
    expected.pop("own-rows")
    assert several == {label: pytest.approx(values, rel=1e-4) for label, values in expected.items()}
    if shutil.which("Rscript") is None:
        return
    (tmp_path / "own.R").write_text(program("r", "program"))
    in_r = losses(run([*launch, "own.R"], tmp_path))
    assert in_r.pop("own-rows") == pytest.approx(own, rel=1e-4)
    # The page reads images in another way from Python, and data frames with a package that may be missing.
    shared = set(expected) - {"images"}
    assert set(in_r) - {"images", "data-frame"} == shared - {"data-frame"}
    assert {label: in_r[label] for label in shared} == {
        label: pytest.approx(expected[label], rel=1e-4) for label in shared
    }


def test_each_kind_of_data_is_there_in_both_languages() -> None:
    kinds = [label for label, chunk in chunks("r").items() if "loss = TRUE" in chunk.options]
    of_python = [label for label, chunk in chunks("python").items() if "loss = TRUE" in chunk.options]
    assert [label.removesuffix("-python") for label in of_python] == kinds
    assert {"data-frame", "arrays", "csv", "parquet", "tfrecord", "images", "generator", "large"} <= set(
        kinds
    )
    longest = {
        label: len(chunk.code.splitlines()) for label, chunk in {**chunks("r"), **chunks("python")}.items()
    }
    assert all(longest[label] <= 12 for label in [*kinds, *of_python])

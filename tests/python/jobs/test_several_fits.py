"""A program that trains several times, here once for each fold of its data."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.launching import only_run, python, tfmuster
from support.paths import PROGRAMS
from tfmuster import Run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
PROGRAM = PROGRAMS / "folds.py"


def folds(said: str, worker: int | None = None) -> list[dict[str, Any]]:
    before = "" if worker is None else rf"worker {worker} \| "
    return [json.loads(text) for text in re.findall(f"^{before}said (.*)$", said, re.MULTILINE)]


def launched(folder: Path, *options: object, **env: str) -> str:
    folder.mkdir()
    done = tfmuster("launch", "--all-output", "-n", 2, *options, PROGRAM, cwd=folder, limit=150, **env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_each_fold_is_like_that_of_one_process_also_after_a_restart(tmp_path: Path) -> None:
    alone = python(PROGRAM, cwd=tmp_path, limit=100)
    assert alone.returncode == 0, alone.stderr
    said = launched(tmp_path / "once")
    expected = folds(alone.stdout)
    assert [fold["fold"] for fold in expected] == [0, 1, 2]
    for worker in (0, 1):
        for ours, theirs in zip(folds(said, worker), expected, strict=True):
            for name, value in theirs.items():
                np.testing.assert_allclose(ours[name], value, rtol=1e-4, atol=1e-5, err_msg=name)
    shown = re.findall(r"^worker 0 \| ((?:fit \d, )?epoch \d)  loss", said, re.MULTILINE)
    names = [f"{fit}epoch {epoch}" for fit in ("", "fit 2, ", "fit 3, ") for epoch in (1, 2, 3)]
    assert shown == names
    history = Run(only_run(tmp_path / "once")).history()
    assert history["loss"] == [loss for fold in folds(said, 0) for loss in fold["losses"]]
    assert [math.isnan(value) for value in history["val_loss"]] == [*3 * [True], *3 * [False], *3 * [True]]

    again = launched(tmp_path / "killed", "--max-restarts", 1, DIES="yes")
    for worker in (0, 1):
        # The first fold has ended before, and is told again.
        assert folds(again, worker)[-3:] == folds(said, worker)
    np.testing.assert_equal(Run(only_run(tmp_path / "killed")).history(), history)

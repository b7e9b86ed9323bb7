"""Programs that never heard of tfmuster, on two workers."""

from __future__ import annotations

import re
from pathlib import Path

import keras
import numpy as np
import pytest

from support.launching import tfmuster
from support.paths import PROGRAMS
from support.r import NEEDS_R


@pytest.mark.slow
class TestProgramsThatNeverHeardOfTfmuster:
    def weights(self, output: str) -> list[float]:
        return [float(line.split()[-1]) for line in output.splitlines() if "replicas 2 weights" in line]

    @pytest.mark.parametrize("program", ["unaware.py", pytest.param("unaware.R", marks=NEEDS_R)])
    def test_keras_trains_on_two_workers(self, tmp_path: Path, program: str) -> None:
        done = tfmuster("launch", "--all-output", "-n", 2, PROGRAMS / program, cwd=tmp_path, limit=200)
        assert done.returncode == 0, done.stdout + done.stderr
        first, second = self.weights(done.stdout)
        assert first == second

    def test_a_folder_of_images_is_read_once_an_epoch(self, tmp_path: Path) -> None:
        for image in range(80):
            (tmp_path / "images" / str(image % 4)).mkdir(parents=True, exist_ok=True)
            keras.utils.save_img(
                tmp_path / "images" / str(image % 4) / f"{image}.png",
                np.full((4, 4, 3), 3 * image),
                scale=False,
            )
        done = tfmuster(
            "launch", "--all-output", "-n", 2, PROGRAMS / "image_folder.py", "images", cwd=tmp_path, limit=200
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.count("read (array([1.]") == 2, done.stdout
        assert done.stdout.count("array([80]))") == 2, done.stdout

    def test_a_progress_bar_is_one_line_per_epoch(self, tmp_path: Path) -> None:
        done = tfmuster(
            "launch", "-n", 2, "--only-chief", PROGRAMS / "unaware.py", "bar", cwd=tmp_path, limit=200
        )
        assert done.returncode == 0, done.stdout + done.stderr
        bars = [line for line in done.stdout.splitlines() if "loss: " in line]
        assert len(bars) == 2
        assert all(re.match(r"worker 0 \| 4/4 ━+ ", line) for line in bars), bars

    def test_without_the_repair_keras_fails_and_the_cause_is_shown(self, tmp_path: Path) -> None:
        done = tfmuster(
            "launch", "-n", 2, "--no-keras-compat", PROGRAMS / "unaware.py", cwd=tmp_path, limit=200
        )
        assert done.returncode == 1
        assert "PerReplica" in done.stderr

"""Durations and speeds, as people read them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfmuster.tracking.lifecycle.beginning import new_run
from tfmuster.tracking.record.layout import append_json
from tfmuster.tracking.run import Run
from tfmuster.tracking.show.listing import summary
from tfmuster.tracking.show.times import in_words, speed_of, speeds


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0.0 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min 0 s"),
        (200, "3 min 20 s"),
        (3600 * 2 + 300, "2 h 5 min"),
        (3600 * 73, "3 d 1 h"),
    ],
)
def test_a_duration_has_two_units(seconds: float, words: str) -> None:
    assert in_words(seconds) == words


def test_the_speed_of_a_run_is_that_of_its_last_training(tmp_path: Path) -> None:
    run = Run(new_run("train", run_dir=tmp_path / "run", command=["train.py"], cluster={}))
    assert speed_of(run) == "" and "speed" not in summary(run)
    path = run.path / "states" / "worker-0.jsonl"
    path.parent.mkdir()
    for speed in (3.0, 12.34):
        append_json(path, {"time": speed, "phase": "trained", "steps_per_second": speed})
    assert speeds(run) == {"worker 0": {"steps_per_second": 12.34}}
    assert summary(run)["speed"] == "12.3 steps/s"
    append_json(path, {"time": 99.0, "phase": "trained", "steps_per_second": 10, "images_per_second": 1280})
    assert speed_of(run) == "1,280 images/s"

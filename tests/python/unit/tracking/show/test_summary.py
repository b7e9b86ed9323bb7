"""A run as rows of a table, and its durations and speeds as people read them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfmuster.tracking.lifecycle.beginning import new_run
from tfmuster.tracking.record.layout import append_json, write_json
from tfmuster.tracking.record.recording import record_info, record_status
from tfmuster.tracking.run import Run
from tfmuster.tracking.show.summary import glance_row, in_words, speed_of, speeds, summary, task_rows

EVIL = "a\x9b31mb\u202ec\x1b[2J"


def test_a_row_for_each_task_with_what_it_reports_and_none_for_the_rest(tmp_path: Path) -> None:
    run = Run(new_run("train", run_dir=tmp_path / "run", command=["train.py"], cluster={}))
    tasks = {task: {"state": "running", "host": "node", "pid": 7} for task in ("worker 0", "worker 1")}
    record_status(run.path, state="running", tasks=tasks)
    (run.path / "states").mkdir(exist_ok=True)
    said = {"phase": "training", "epoch": 2, "step": 3, "sum_share": 0.5, "wait_share": 0.4}
    write_json(run.path / "states" / "worker-0.json", {**said, "waits_for": EVIL})
    first, second = task_rows(run)
    assert list(first) == list(second)
    assert (first["task"], first["pid"], first["exit_code"]) == ("worker 0", 7, None)
    assert (first["epoch"], first["wait_share"], first["waits_for"]) == (2, 0.4, "abc")
    assert second["wait_share"] is None and second["doing"] is None
    write_json(run.path / "status.json", {"state": "done", "tasks": {EVIL: {"state": "done"}}})
    assert [row["task"] for row in task_rows(run)] == ["abc"]


def test_a_row_for_the_run(tmp_path: Path) -> None:
    run = Run(new_run("train", run_dir=tmp_path / "run", command=["train.py"], cluster={}))
    record_info(run.path, {**run.info(), "started": "2026-01-01T00:00:00+00:00"})
    for epoch, loss in enumerate((2.0, 1.0), start=1):
        append_json(run.path / "metrics.jsonl", {"epoch": epoch, "loss": loss, EVIL: loss})
    status = {"state": "done", "restarts": 2, "tasks": {"worker 0": {}}, "updated": "2026-01-01T00:01:30Z"}
    write_json(run.path / "status.json", status)
    row = glance_row(run)
    assert row["metrics"] == {"loss": 1.0, "abc": 1.0}
    assert {name: row[name] for name in ("state", "tasks", "restarts", "seconds", "epochs")} == {
        "state": "done",
        "tasks": 1,
        "restarts": 2,
        "seconds": 90.0,
        "epochs": 2,
    }
    empty = Run(new_run("other", run_dir=tmp_path / "other", command=["train.py"], cluster={}))
    (empty.path / "run.json").unlink()
    assert glance_row(empty)["seconds"] is None


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
    assert speed_of(run.path) == "" and "speed" not in summary(run)
    path = run.path / "states" / "worker-0.jsonl"
    path.parent.mkdir()
    for speed in (3.0, 12.34):
        append_json(path, {"time": speed, "phase": "trained", "steps_per_second": speed})
    assert speeds(run) == {"worker 0": {"steps_per_second": 12.34}}
    assert summary(run)["speed"] == "12.3 steps/s"
    append_json(path, {"time": 99.0, "phase": "trained", "steps_per_second": 10, "images_per_second": 1280})
    assert speed_of(run.path) == "1,280 images/s"

"""What a run directory keeps, and the metrics of a run that was restarted."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import pytest

from support.launching import write
from tfmuster.errors import TfmusterError
from tfmuster.tracking.lifecycle.beginning import new_run
from tfmuster.tracking.record.recording import record_info, record_status
from tfmuster.tracking.run import Run


def test_of_an_epoch_that_was_repeated_the_last_counts(tmp_path: Path) -> None:
    lines = [
        {"epoch": epoch, "time": 0, "loss": loss} for epoch, loss in [(1, 3.0), (2, 2.5), (2, 2.0), (3, 1.0)]
    ]
    write(tmp_path, "metrics.jsonl", *map(json.dumps, lines))
    assert Run(tmp_path).history() == {"loss": [3.0, 2.0, 1.0]}


def test_what_is_started_is_for_its_user_alone(tmp_path: Path) -> None:
    run = Run(
        new_run(
            "train",
            run_dir=tmp_path / "run",
            command=["train.py", "--token", "abc", "KEY=1"],
            cluster={"worker": []},
        )
    )
    written = run.path / "run.json"
    assert written.stat().st_mode & 0o777 == 0o600
    assert run.info()["command"] == ["train.py", "--token", "***", "KEY=1"]
    record_info(run.path, {**run.info(), "job": "another"})
    assert written.stat().st_mode & 0o777 == 0o600
    assert "abc" not in written.read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_run_of_another_user_is_not_lost() -> None:
    # Others can't look into pytest's own folder.
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        run = Run(new_run("train", run_dir=Path(folder, "run"), command=["train.py"], cluster={"worker": []}))
        record_status(run.path, state="running")
        os.seteuid(65534)
        try:
            assert (run.info(), run.status()["state"]) == ({}, "running")
        finally:
            os.seteuid(0)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")
def test_a_run_of_another_user_is_not_stopped(tmp_path: Path) -> None:
    run = Run(new_run("train", run_dir=tmp_path / "run", command=["train.py"], cluster={"worker": []}))
    os.chown(run.path / "run.json", 65534, 65534)
    with pytest.raises(TfmusterError, match="must be your own") as caught:
        run.stop()
    assert caught.value.fields["reason"] == "foreign"

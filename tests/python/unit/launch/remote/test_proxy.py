"""What comes from a host is written in the run directory and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfmuster.launch.remote.proxy import WorkerProxy
from tfmuster.net.channel import message


@pytest.mark.parametrize(
    "name", ["../escape", "/tmp/escape", "a/../../escape", "run.json", "logs/worker-0.log"]
)
def test_a_host_writes_nowhere_but_in_the_run_directory(tmp_path: Path, name: str) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "run.json").write_text("ours")
    given = {"note_path": str(run / "logs/worker-0.error.json"), "job": {"run_dir": str(run)}}
    stand_in = WorkerProxy(None, "node1", 0.0, given)  # type: ignore[arg-type]
    stand_in._handle(b"F", b"theirs")
    stand_in._handle(b"J", message("file", path=name).payload)
    assert (run / "run.json").read_text() == "ours"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["run", "run.json"]

"""What comes from a host is written in the run directory and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfmuster.launch.remote.proxy import WorkerProxy
from tfmuster.net.channel import message


@pytest.mark.parametrize(
    "name",
    [
        *("../escape", "/tmp/escape", "a/../../escape", ".", "run.json", "logs/worker-0.log"),
        *("stop", "stop.json", "RUN.json", "status.json", "error.json", "tfruns.d/x/run.json", "report.html"),
        *(
            ".bashrc",
            "a/.hidden/x",
            "call/any-values",
            "call/call.pkl",
            "call/worker-1.pkl",
            "CALL/worker-0.pkl",
        ),
        *("call/worker-0.pkl/x", "states/worker-1.json", "states/a/worker-0.json", "stacks/wanted"),
    ],
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


@pytest.mark.parametrize(
    "name",
    [
        *("model.keras", "checkpoints/epoch-1.checkpoint", "metrics.jsonl", "a/run.json"),
        *("call/worker-0.value", "call/worker-0.rds", "states/worker-0.json", "states/worker-0.jsonl"),
        "stacks/worker-0.txt",
    ],
)
def test_what_a_worker_writes_arrives(tmp_path: Path, name: str) -> None:
    given = {"note_path": str(tmp_path / "logs/worker-0.error.json"), "job": {"run_dir": str(tmp_path)}}
    stand_in = WorkerProxy(None, "node1", 0.0, given)  # type: ignore[arg-type]
    stand_in._handle(b"F", b"theirs")
    stand_in._handle(b"J", message("file", path=name).payload)
    assert (tmp_path / name).read_bytes() == b"theirs"


def test_a_name_that_is_not_kept_is_said_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    given = {"note_path": str(tmp_path / "logs/worker-0.error.json"), "job": {"run_dir": str(tmp_path)}}
    stand_in = WorkerProxy(None, "node1", 0.0, given)  # type: ignore[arg-type]
    for name in ("stop", "stop", "call/any-values", ".hidden"):
        stand_in._handle(b"J", message("file", path=name).payload)
    assert capfd.readouterr().out == (
        "tfmuster: node1 sent stop, a name that tfmuster uses itself; the file was not kept\n"
    )

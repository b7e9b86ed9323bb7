"""What a file gets of a job: lines, and a line per epoch. Signs of life are on standard error."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfmuster.launcher.supervise import display as module
from tfmuster.launcher.supervise.display import display
from tfmuster.tracking.live.states import State
from tfmuster.tracking.record.layout import append_json


def test_epochs_that_no_program_prints_are_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    append_json(tmp_path / "metrics.jsonl", {"epoch": 1, "loss": 9.0, "shown": False})
    shown = display("all", tmp_path, "worker 0 | ")
    append_json(tmp_path / "metrics.jsonl", {"epoch": 2, "loss": 0.5, "shown": False})
    append_json(tmp_path / "metrics.jsonl", {"epoch": 3, "loss": 0.4, "shown": True})
    shown.look(list)
    shown.line("worker 1 | hello")
    append_json(tmp_path / "metrics.jsonl", {"epoch": 4, "loss": 0.25, "accuracy": 1.0, "shown": False})
    shown.close()
    assert capsys.readouterr().out.splitlines() == [
        "worker 0 | epoch 2  loss 0.5000",
        "worker 1 | hello",
        "worker 0 | epoch 4  loss 0.2500  accuracy 1.0000",
    ]


def test_a_silent_job_gives_a_sign_of_life(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    training = State("training", epoch=1, epochs=2, step=5, steps=10, steps_per_second=5.0)
    rows = [("worker 0", "host", State("trained")), ("worker 1", "host", training)]
    shown = display("all", tmp_path, "worker 0 | ")
    shown.look(lambda: rows)
    assert capsys.readouterr().out == ""
    monkeypatch.setattr(module, "_SILENT_SECONDS", 0.0)
    shown._shown._next = 0.0  # type: ignore[attr-defined]
    shown.look(lambda: rows)
    said = capsys.readouterr().err
    assert said == (
        "tfmuster: running for 0.0 s; worker 1: training  epoch 1/2  step 5/10  5.0 steps/s, 3.0 s left\n"
    )


def test_workers_that_start_are_told_every_ten_seconds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    importing = State("importing", library="TensorFlow", seconds=4.0)
    rows = [("worker 0", "host", State("tracing", seconds=1.0)), ("worker 1", "host", importing)]
    shown = display("all", tmp_path, "worker 0 | ")
    for _ in range(22):
        now += 1
        shown.line("worker 0 | line")
        shown.look(lambda: rows)
    doing = "worker 0: tracing; worker 1: importing TensorFlow\n"
    output = capsys.readouterr()
    assert output.err == "".join(f"tfmuster: starting for {at} s; {doing}" for at in (10, 20))
    assert output.out == 22 * "worker 0 | line\n"
    many = [(f"worker {i}", "host", importing) for i in range(7)]
    now += 10
    shown.look(lambda: many)
    assert capsys.readouterr().err == (
        "tfmuster: starting for 32 s; "
        "worker 0, worker 1, worker 2, worker 3 and 3 more: importing TensorFlow\n"
    )
    now += 30
    shown.look(lambda: [("worker 0", "host", State("training"))])
    assert capsys.readouterr().err == ""

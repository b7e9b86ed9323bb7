"""What is known of a worker, whatever the machine's clock does."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tfmuster.launcher.supervise import worker_process
from tfmuster.launcher.supervise.worker_process import Placement, WorkerProcess
from tfmuster.tracking.live.states import State


@pytest.fixture
def worker(tmp_path: Path) -> WorkerProcess:
    process: Any = SimpleNamespace(pid=42)
    note = tmp_path / "worker-0.error.json"
    return WorkerProcess(Placement("worker 0", True, (), {}), process, io.BytesIO(), tmp_path / "log", note)


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    clocks = SimpleNamespace(wall=1e9, steady=100.0)
    monkeypatch.setattr(worker_process.time, "time", lambda: clocks.wall)
    monkeypatch.setattr(worker_process.time, "monotonic", lambda: clocks.steady)
    return clocks


@pytest.mark.parametrize("step", [-60, 60])
def test_a_step_of_the_clock_is_no_time_in_which_a_worker_was_stopped(
    worker: WorkerProcess, clocks: SimpleNamespace, step: int
) -> None:
    worker.look({42: 43})
    assert worker.stopped == "process 43" and worker.stopped_at == 1e9
    clocks.wall += step
    clocks.steady += 4
    worker.look({42: 43})
    assert worker.stopped_for == pytest.approx(4) and not worker.frozen
    clocks.steady += 7
    worker.look({42: 43})
    assert worker.frozen and worker.stopped_at == 1e9
    worker.look({})
    assert not worker.frozen and worker.stopped == ""


@pytest.mark.parametrize("step", [-60, 60])
def test_a_step_of_the_clock_is_no_time_in_which_a_worker_lingers(
    worker: WorkerProcess, clocks: SimpleNamespace, step: int
) -> None:
    assert not worker.lingers()
    worker.note_path.write_text(json.dumps({"pid": 42, "time": 1e9, "error": "ValueError"}))
    assert not worker.lingers()
    clocks.wall += step
    clocks.steady += 4
    assert not worker.lingers()
    clocks.steady += 2
    assert worker.lingers()


def test_the_phases_of_a_start_are_timed(worker: WorkerProcess, clocks: SimpleNamespace) -> None:
    worker.phase_since = clocks.steady

    def after(seconds: float, phase: str = "") -> str:
        clocks.steady += seconds
        return worker.doing({"worker 0": State(phase)} if phase else {}).text

    assert after(3) == "starting  3 s"
    assert after(1, "importing") == "importing  0 s"
    assert after(90, "importing") == "importing  90 s"
    assert after(1, "building") == "making the model  0 s"
    assert after(59, "building") == "making the model  59 s"
    # A loop of the program's own may train for long.
    assert after(2, "building") == "running"
    assert after(1, "training") == "training"
    # Another call of `fit` is no start of the job.
    assert after(1, "tracing") == "tracing"

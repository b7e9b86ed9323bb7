"""Stacks of workers in which no Python thread runs."""

from __future__ import annotations

import faulthandler
import time
from pathlib import Path

import pytest

from support.clock import in_time
from tfmuster.environment import RUN_DIR_VARIABLE
from tfmuster.tracking.live import stacks
from tfmuster.tracking.live.stacks import (
    ask_for_stacks,
    forget_busy_stacks,
    keep_busy_stacks,
    read_busy_stacks,
)


@pytest.fixture
def run_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run directory with the file of a busy worker, written by faulthandler as in a worker."""
    monkeypatch.setenv(RUN_DIR_VARIABLE, str(tmp_path))
    monkeypatch.setattr(stacks.ACTIVITY, "r_calls", "train(x)\nfit(model, x)")
    watch = stacks.BusyWatch("worker 1", tmp_path / "states" / "worker-1.busy")
    assert read_busy_stacks(tmp_path) == {}
    faulthandler.dump_traceback_later(0.2, file=watch._file)
    time.sleep(0.5)
    assert watch._length
    return tmp_path


def test_the_text_has_the_stack_and_what_r_called(run_dir: Path) -> None:
    text = read_busy_stacks(run_dir)["worker 1"]
    first, busy, unknown, _, main, *_ = text.splitlines()
    assert first.startswith("worker 1, pid ") and first.endswith(": outside of fit, evaluate, and predict")
    assert busy.startswith("R is busy: no Python thread had run for 3 s then")
    assert unknown == "R's own calls are not known until its code returns to Python."
    assert main == "Python, main thread (most recent call last):"
    assert "in run_dir\n    time.sleep(0.5)\n" in text
    assert text.endswith("R, when it last called TensorFlow:\n  train(x)\n  fit(model, x)\n")


def test_someone_who_asks_gets_it_at_once(run_dir: Path) -> None:
    begun = time.monotonic()
    assert set(ask_for_stacks(run_dir, {"worker 1": {}}, running=True)) == {"worker 1"}
    assert in_time(begun, 0.5)


def test_it_stays_if_the_others_have_left_theirs(run_dir: Path) -> None:
    (run_dir / "stacks").mkdir()
    keep_busy_stacks(run_dir)
    forget_busy_stacks(run_dir)
    assert list((run_dir / "states").iterdir()) == []
    assert "in run_dir" in ask_for_stacks(run_dir, {"worker 1": {}}, running=False)["worker 1"]


def test_a_run_that_has_ended_well_keeps_nothing(run_dir: Path) -> None:
    keep_busy_stacks(run_dir)
    forget_busy_stacks(run_dir)
    assert [path.name for path in run_dir.iterdir()] == ["states"]
    assert list((run_dir / "states").iterdir()) == []

"""A job whose workers wait for one that does not come ends, names it, and keeps the stacks of all."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest

from support.clock import in_time
from support.launching import TFMUSTER, environment, start_tfmuster, tfmuster
from support.paths import PROGRAMS
from support.r import NEEDS_R
from tfmuster.tracking.show.listing import find_run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(200)]

STALLING = PROGRAMS / "stalling.py"


def stalls(tmp_path: Path, how: str, *options: object, **more: str) -> tuple[str, dict[str, str]]:
    """What `launch` writes to stderr, and the stacks by task."""
    arguments = ["-n", 2, "--stall-timeout", 4, *options, STALLING, *how.split()]
    done = tfmuster("launch", *arguments, cwd=tmp_path, limit=150, **more)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "worker 0 | ends" not in done.stdout
    return done.stderr, find_run(None, tmp_path / "runs").stacks()


def test_a_worker_that_sleeps_is_named_with_its_stack(tmp_path: Path) -> None:
    error, stacks = stalls(tmp_path, "sleep")
    assert "worker 1 on " in error and "failed with exit code 1: stalled: worker 0 waited" in error
    assert "in fit, epoch 2 of 4, step" in error and "s for worker 1.\n" in error
    assert "between two steps" in error and "inside a step or another TensorFlow call" in error
    assert set(stacks) == {"worker 0", "worker 1"}
    assert "time.sleep(600)" in stacks["worker 1"] and "on_epoch_begin" in stacks["worker 1"]
    assert "model.fit(x, y, epochs=4" in stacks["worker 0"]


@NEEDS_R
def test_a_worker_on_which_r_is_busy_is_named_and_the_stacks_have_rs_calls(tmp_path: Path) -> None:
    # While R is busy, no thread of its Python runs, which would report what the worker does.
    done = tfmuster("launch", "-n", 2, "--stall-timeout", 4, PROGRAMS / "stalling.R", cwd=tmp_path, limit=150)
    assert done.returncode == 1 and "ends" not in done.stdout
    assert "stalled: worker 0 waited" in done.stderr and "s for worker 1.\n" in done.stderr
    run = find_run(None, tmp_path / "runs")
    stacks = run.stacks()
    for stack in stacks.values():
        assert "R, when it last called TensorFlow:\n  train(matrix(1, 256, 8))\n" in stack
        assert "Python, main thread (most recent call last):" in stack and "in fit\n" in stack
    # Since version 1.39, reticulate lets Python's threads run while R is busy.
    assert "R is busy: no Python thread" in stacks["worker 1"] or "tfmuster-control" in stacks["worker 1"]
    assert "in on_epoch_begin" in stacks["worker 1"] and "in on_epoch_begin" not in stacks["worker 0"]
    assert {path.name for path in (run.path / "stacks").iterdir()} >= {"worker-0.txt", "worker-1.txt"}
    assert not list(run.path.glob("states/*.busy"))


@pytest.mark.parametrize(
    ("how", "leaver"), [("stop stays", 1), ("stop", 1), ("leave exit 0", 0), ("before", 1)]
)
def test_a_worker_that_ends_early_is_named_at_once(tmp_path: Path, how: str, leaver: int) -> None:
    begun = time.monotonic()
    error, _ = stalls(tmp_path, how, "--stall-timeout", 0)
    assert f"stalled: worker {1 - leaver} still needs worker {leaver}, which finished its program." in error
    assert "Socket closed" not in error
    assert in_time(begun, 100)


@pytest.mark.parametrize("leaver", [0, 1])
def test_a_worker_that_vanishes_without_a_failure_is_named(tmp_path: Path, leaver: int) -> None:
    error, _ = stalls(tmp_path, f"leave vanish {leaver}")
    first = next(line for line in error.splitlines() if "failed with exit code" in line)
    assert first.startswith(f"worker {1 - leaver} on ")
    assert f"worker {leaver} (" in first and first.endswith("disappeared: its process ended or was killed")


def test_data_that_end_early_are_named(tmp_path: Path) -> None:
    # The workers compare each sum that they begin, so nobody waits.
    done = tfmuster("launch", "-n", 2, "--stall-timeout", 60, STALLING, "data", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "worker 1 on " in done.stderr
    assert "ended on this worker before those of worker 0" in done.stderr
    assert "its data ended after 5 batches" in done.stderr


def test_data_that_end_early_are_named_when_tensorflow_sums(tmp_path: Path) -> None:
    error, _ = stalls(tmp_path, "data", TFMUSTER_COMMUNICATION="tensorflow")
    assert "s for worker 1, whose data ended earlier." in error
    assert "its data ended after 5 batches" in error


def test_a_stall_in_a_custom_loop_is_a_failure_as_any_other(tmp_path: Path) -> None:
    error, _ = stalls(tmp_path, "loop", "--max-restarts", 1)
    assert "restart 1 of 1" in error
    assert "worker 1 (" in error and "): outside of fit, evaluate, and predict, not in TensorFlow" in error


def test_a_slow_worker_that_moves_is_not_named_and_tells_its_stack_when_asked(tmp_path: Path) -> None:
    launched = start_tfmuster(
        "launch", "--all-output", "-n", 2, "--stall-timeout", 3, STALLING, "slow", cwd=tmp_path
    )
    try:
        run = None
        deadline = time.monotonic() + 120
        while run is None or "begins" not in run.logs().get("worker 1", ""):
            assert time.monotonic() < deadline
            time.sleep(0.5)
            run = find_run(None, tmp_path / "runs") if list(tmp_path.glob("runs/*/run.json")) else None
        asked = subprocess.run(
            [*TFMUSTER, "runs", "stacks", "--json"],
            cwd=tmp_path,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        texts = json.loads(asked.stdout)
        assert set(texts) == {"worker 0", "worker 1"}
        assert all("Python, main thread (most recent call last):" in text for text in texts.values())
        output, _ = launched.communicate(timeout=120)
    finally:
        launched.kill()
    assert launched.returncode == 0, output
    assert "stalled" not in output and output.count("| ends") == 2

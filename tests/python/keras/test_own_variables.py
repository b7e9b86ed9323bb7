"""Loops with a tape on variables of the program's own: refused where a worker would train its own copy."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.launching import only_run, read_json, tfmuster
from support.paths import PROGRAMS

PROGRAM = PROGRAMS / "own_variables.py"


def said(folder: Path, worker: int) -> dict[str, str]:
    """What became of each way on a worker."""
    log = (only_run(folder) / "logs" / f"worker-{worker}.log").read_text()
    words = [line.partition(" ") for line in log.splitlines()]
    return {way: text for way, _, text in words if text == "runs" or text.startswith("refused: ")}


@pytest.mark.slow
@pytest.mark.timeout(250)
def test_without_a_strategy_a_loop_is_refused_when_it_assigns(tmp_path: Path) -> None:
    done = tfmuster("launch", "-n", 2, PROGRAM, "alone", cwd=tmp_path, limit=240)
    assert done.returncode == 0, done.stdout + done.stderr
    for worker in (0, 1):
        ways = said(tmp_path, worker)
        assert {way for way, text in ways.items() if text == "runs"} == {
            "saliency",
            "counted",
            "own_on_purpose",
        }
        refused = {way: text for way, text in ways.items() if text != "runs"}
        assert set(refused) == {"eager", "by_momentum", "in_graph", "returned", "of_keras"}
        assert all(text.startswith("refused: not-distributed | ") for text in refused.values()), refused
        assert "| W (2, 1) is assigned the gradient of one worker (" in refused["in_graph"]
        assert "own_variables.py, line " in refused["in_graph"]
        assert "W.assign_sub(0.1 * momentum)" in refused["in_graph"]
        assert refused["eager"].endswith("without a strategy, each worker trains its own copy")
        assert "| dense/kernel:0 (2, 1) is assigned" in refused["of_keras"]


@pytest.mark.slow
@pytest.mark.timeout(250)
def test_with_a_strategy_what_the_workers_add_and_what_is_their_own_runs(tmp_path: Path) -> None:
    done = tfmuster("launch", "-n", 2, PROGRAM, "together", cwd=tmp_path, limit=240)
    assert done.returncode == 0, done.stdout + done.stderr
    for worker in (0, 1):
        ways = said(tmp_path, worker)
        assert {way for way, text in ways.items() if text == "runs"} == {
            *("saliency", "counted", "added", "reduced", "gathered"),
            *("of_the_scope", "perturbation", "by_one"),
        }, ways
        assert ways["outside"].startswith(
            "refused: not-distributed | mirrored (2, 1) is assigned the gradient"
        )
        assert ways["outside_in_graph"].startswith("refused: not-distributed | mirrored (2, 1) is assigned")
        assert ways["in_scope"].startswith("refused: not-distributed | a loop computes or applies gradients")
        assert ways["plain_in_step"] == (
            "refused: made-outside | 1 of the optimizer's 1 variables belong to no strategy"
        )
    assert "tfmuster: delta (32, 2) is assigned the gradient of one worker" in done.stdout + done.stderr
    assert "make it with trainable=False" in done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.timeout(250)
def test_a_variable_that_differs_at_the_end_is_named(tmp_path: Path) -> None:
    done = tfmuster("launch", "-n", 2, "--all-output", PROGRAM, "end", cwd=tmp_path, limit=240)
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.count("| at the end") == 2
    error = read_json(only_run(tmp_path) / "error.json")
    assert "train one model together" in str(error)
    differs = "found: the program ends, and W (2, 1) of worker 1 differs from that of worker 0: no gradients"
    for line in (
        differs,
        "with strategy.scope():",
        "tfmuster.distributed_step(strategy, train)",
        "--independent",
    ):
        assert line in done.stderr

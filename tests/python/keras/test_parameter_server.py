"""Training with parameter servers, by real processes: how it computes, how it ends, and what it survives."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.clock import in_time
from support.jobs import free_addresses
from support.launching import environment, nothing_left, only_run, read_json, start_tfmuster, states, tfmuster
from support.paths import PROGRAMS

PROGRAM = PROGRAMS / "parameter_servers.py"

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _clean(tmp_path: Path):
    yield
    nothing_left(tmp_path)


#: Of each training, unless a test says otherwise.
LENGTH = {"epochs": 2, "steps": 15}


def train_all(
    folder: Path, *launch: object, trainings: list[dict[str, Any]], code: int = 0, limit: float = 120
) -> tuple[list[dict[str, Any]], subprocess.CompletedProcess[str]]:
    """What the program has written about each training of one job, and how ``tfmuster launch`` has ended."""
    folder.mkdir(exist_ok=True)
    out = folder / "result.json"
    arguments = [PROGRAM, out, *(json.dumps({**LENGTH, **options}) for options in trainings)]
    done = tfmuster("launch", *launch, *arguments, cwd=folder, limit=limit)
    assert done.returncode == code, done.stdout + done.stderr
    return (read_json(out) if out.exists() else []), done


def train(
    folder: Path, *launch: object, code: int = 0, **options: Any
) -> tuple[dict[str, Any], subprocess.CompletedProcess[str]]:
    """The same of a job that trains once."""
    results, done = train_all(folder, *launch, trainings=[options], code=code)
    return (results[0] if results else {}), done


def alone(folder: Path, **options: Any) -> dict[str, Any]:
    """The same by one process."""
    out = folder / "alone.json"
    given = json.dumps({**LENGTH, "updates": "", **options})
    subprocess.run([sys.executable, PROGRAM, out, given], env=environment(), check=True, timeout=100)
    result: dict[str, Any] = read_json(out)[0]
    return result


def difference(one: dict[str, Any], other: dict[str, Any]) -> float:
    return max(
        float(np.abs(np.subtract(a, b)).max()) for a, b in zip(one["weights"], other["weights"], strict=True)
    )


def test_synchronous_updates_equal_one_process(tmp_path: Path) -> None:
    expected = alone(tmp_path)
    for servers in (1, 2):
        folder = tmp_path / str(servers)
        # Every weight of more than 64 bytes is cut, if there are two to put the pieces on.
        result, _ = train(folder, "--ps", servers, "-n", 3, updates="sync", cut=64)
        assert difference(result, expected) < 1e-6
        for metric, values in expected["history"].items():
            assert result["history"][metric] == pytest.approx(values, abs=1e-6), metric
        assert result["updates"] == expected["updates"] == 30
        # Nobody has ended them: that would be "ended".
        assert set(states(folder).values()) == {("done", 0)}
        assert len(states(folder)) == servers + 3


def test_asynchronous_updates_are_counted_and_learn(tmp_path: Path) -> None:
    result, done = train(tmp_path, "--ps", 2, "-n", 2, "--chief", updates="async", epochs=3, steps=40, cut=64)
    assert (result["updates"], result["steps"]) == (120, 120)
    history = result["history"]
    assert history["loss"][-1] < history["loss"][0]
    assert history["val_accuracy"][-1] > 0.8
    assert all(
        0 <= mean <= most for mean, most in zip(history["staleness"], history["max_staleness"], strict=True)
    )
    # Two workers that never meet would be no asynchronous training.
    assert max(history["max_staleness"]) >= 1
    assert set(states(tmp_path).values()) == {("done", 0)}
    assert "removed" not in done.stdout + done.stderr


def test_a_slow_worker_slows_synchronous_updates_only(tmp_path: Path) -> None:
    common: dict[str, Any] = {"epochs": 1, "steps": 24, "slow": 0.2}
    ways: list[dict[str, Any]] = [
        {"updates": "sync"},
        {"updates": "sync", "aggregate": 2},
        {"updates": "async"},
    ]
    (sync, spare, free), _ = train_all(
        tmp_path, "--ps", 1, "-n", 3, trainings=[{**common, **way} for way in ways]
    )
    # Each step waits for the slow one; the others' 12 rows take a few ms.
    assert sync["seconds"] > 20 * 0.2
    assert spare["seconds"] < sync["seconds"] / 2
    assert free["seconds"] < sync["seconds"] / 2
    assert [r["updates"] for r in (sync, spare, free)] == [24, 24, 24]


def test_a_lost_worker_is_done_without(tmp_path: Path) -> None:
    result, done = train(
        tmp_path, "--ps", 1, "-n", 3, updates="async", epochs=2, steps=60, kill=[20, "worker 2"]
    )
    assert (result["steps"], result["updates"]) in ((120, 120), (120, 121))
    assert "worker 2 is lost; 2 workers remain" in done.stdout
    assert "worker 2 on" in done.stdout
    found = states(tmp_path)
    assert found.pop("worker 2") == ("lost", -9)
    assert set(found.values()) == {("done", 0)}


def test_a_lost_worker_ends_synchronous_updates_unless_one_is_to_spare(tmp_path: Path) -> None:
    launch = ("--ps", 1, "-n", 3)
    _, done = train(tmp_path / "all", *launch, code=1, updates="sync", kill=[5, "worker 2"])
    assert "Each synchronous update needs the gradients of 3 workers" in done.stderr
    assert "worker 2 is lost; 2 left" in done.stderr
    result, _ = train(tmp_path / "spare", *launch, updates="sync", aggregate=2, kill=[5, "worker 2"])
    assert result["updates"] == 30


def test_a_lost_parameter_server_restarts_the_job_from_its_checkpoint(tmp_path: Path) -> None:
    options: dict[str, Any] = {"updates": "sync", "every": 4}
    launch = ("--ps", 2, "-n", 2, "--max-restarts", 1)
    expected, _ = train(tmp_path / "undisturbed", *launch, **options)
    result, done = train(tmp_path / "disturbed", *launch, kill=[10, "ps 1"], **options)
    assert "ps 1 on" in done.stderr
    assert "restart 1 of 1" in done.stderr
    # 10 steps, then from the checkpoint after the 8th.
    assert (result["steps"], result["updates"]) == (22, 30)
    assert difference(result, expected) < 1e-6
    assert result["history"]["loss"] == pytest.approx(expected["history"]["loss"], abs=1e-6)


def test_the_coordinator_killed_ends_all(tmp_path: Path) -> None:
    _, done = train(tmp_path, "--ps", 1, "-n", 2, code=1, updates="async", kill=[5, "worker 0"])
    assert "worker 0 on" in done.stderr
    assert "was ended by SIGKILL" in done.stderr


@pytest.mark.parametrize("chief", [True, False])
def test_one_command_for_each_machine(tmp_path: Path, chief: bool) -> None:
    addresses = iter(free_addresses(4))
    jobs = {"ps": [next(addresses)], "worker": [next(addresses), next(addresses)]}
    if chief:
        jobs["chief"] = [next(addresses)]
    (tmp_path / "c.json").write_text(json.dumps(jobs))
    words = ["train", "mnist", "--dataset", "synthetic", "--model", "softmax", "--updates", "sync"]
    words += ["--epochs", "1", "--steps-per-epoch", "5", "--cluster", "c.json"]
    started = {
        f"{job} {index}": start_tfmuster(*words, "--type", job, "--index", index, cwd=tmp_path)
        for job, tasks in jobs.items()
        for index in range(len(tasks))
    }
    leader = started.pop("chief 0" if chief else "worker 0")
    try:
        output, _ = leader.communicate(timeout=170)
        assert leader.returncode == 0, output
        ended = time.monotonic()
        for name, process in started.items():
            assert process.wait(5) == 0, (name, process.communicate())
        assert in_time(ended, 5)
    finally:
        for process in started.values():
            process.kill()
            process.communicate()
    assert "synchronous updates by 2 workers; 1 ps" in output
    assert "test accuracy" in output


@pytest.mark.parametrize("updates", ["async", "sync"])
def test_a_model_of_ones_own_with_what_fit_offers(tmp_path: Path, updates: str) -> None:
    out = tmp_path / "own.json"
    program = PROGRAMS / "own_model.py"
    done = tfmuster("launch", "--ps", 2, "-n", 2, program, out, updates, cwd=tmp_path, limit=120)
    assert done.returncode == 0, done.stdout + done.stderr
    result = read_json(out)
    assert "Keras 3's fit does not support parameter servers" in result["refused"]
    assert "tfmuster.ps_fit(" in result["refused"]
    assert "fit() of a model that was made outside of " in result["refused_outside"]
    assert "with strategy.scope():" in result["refused_outside"]
    assert "ps_fit(" in result["refused_outside"] and "MultiWorker" not in result["refused_outside"]
    names = {"accuracy", "loss", "top2", "val_accuracy", "val_loss", "val_top2"}
    if updates == "async":
        names |= {"staleness", "max_staleness"}
    assert set(result["history"]) == names
    assert {len(values) for values in result["history"].values()} == {3}  # the callback has stopped it
    assert result["params"]["steps"] == 30
    assert (result["calls"], result["updates"]) == (90, 90)
    assert result["call"] == [29, ["accuracy", "loss", "top2"]]
    assert result["accuracy"] == pytest.approx(result["history"]["val_accuracy"][-1])
    assert result["accuracy"] > 0.9
    assert result["moving_mean"] > 0
    assert result["saved_differs"] < 1e-6


def test_servers_that_wait_in_join_end_with_the_coordinator(tmp_path: Path) -> None:
    program = PROGRAMS / "servers_join.py"
    done = tfmuster("launch", "-n", 2, "--ps", 1, "--chief", program, cwd=tmp_path, limit=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "chief 0  | total 10.0" in done.stdout
    assert set(states(tmp_path).values()) == {("done", 0)}


def test_tf_keras_has_its_own_fit(tmp_path: Path) -> None:
    program = PROGRAMS / "legacy_parameter_server.py"
    done = tfmuster("launch", "--ps", 2, "-n", 2, program, cwd=tmp_path, limit=120, TF_USE_LEGACY_KERAS="1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "losses 2 True ShardedVariable" in done.stdout
    assert set(states(tmp_path).values()) == {("done", 0)}


@pytest.mark.parametrize("servers", [0, 1])
def test_an_evaluator_follows_the_checkpoints_and_ends_with_the_job(tmp_path: Path, servers: int) -> None:
    words = ["train", "mnist", "--dataset", "synthetic", "--model", "softmax", "--optimizer", "adam"]
    epochs = 32 if servers else 64
    words += ["--epochs", epochs, "--steps-per-epoch", 40]
    launch = ["--ps", servers, "-n", 2, "--evaluator", "--", "tfmuster", *words]
    done = tfmuster("launch", *launch, cwd=tmp_path, limit=120)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = (only_run(tmp_path) / "evaluations.jsonl").read_text().splitlines()
    found = [json.loads(line) for line in lines]
    assert len(found) >= 2
    assert found[0]["step"] < found[-1]["step"] == 40 * epochs
    assert found[0]["accuracy"] < found[-1]["accuracy"]
    # It tests the weights that the trained model has.
    assert f"test accuracy {found[-1]['accuracy']:.4f}, loss {found[-1]['loss']:.4f}" in done.stdout
    told = done.stdout.index("checkpoint after step ")
    assert told < done.stdout.index(f"epoch {epochs}/{epochs}")
    assert set(states(tmp_path).values()) == {("done", 0)}

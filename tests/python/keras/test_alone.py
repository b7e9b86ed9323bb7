"""Workers of one job that would train a model each: refused before the first step, unless that is wanted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.jobs import free_addresses
from support.launching import TFMUSTER, environment, only_run, read_json, tfmuster, write
from support.paths import PROGRAMS

WAYS = ("fit", "train_on_batch", "loop", "function", "mirrored")


def one_of(workers: int, *command: str, kind: str = "worker", **env: str) -> subprocess.CompletedProcess[str]:
    """Run a program as one task of a job whose other workers never start, which it need not notice."""
    jobs = {"worker": free_addresses(workers), **({} if kind == "worker" else {kind: free_addresses(1)})}
    config = json.dumps({"cluster": jobs, "task": {"type": kind, "index": 0}})
    return subprocess.run(
        [*command],
        env=environment(TF_CONFIG=config, TF_CPP_MIN_LOG_LEVEL="3", **env),
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )


def ways(output: str) -> dict[str, str]:
    """What became of each way to train."""
    words = [line.partition(" ") for line in output.splitlines()]
    return {way: said for way, _, said in words if way in WAYS}


@pytest.mark.slow
def test_no_way_to_train_alone_under_launch(tmp_path: Path) -> None:
    done = tfmuster("launch", "--all-output", "-n", 2, PROGRAMS / "alone.py", cwd=tmp_path, limit=200)
    assert done.returncode == 1, done.stdout + done.stderr
    failure = read_json(only_run(tmp_path) / "error.json")
    # The first worker that gets to the end, where it fails, ends the other.
    own = [line for line in done.stdout.splitlines() if line.startswith(failure["task"])]
    lines = "\n".join(line.partition(" | ")[2] for line in own)
    said = ways(lines)
    assert set(said) == set(WAYS)
    assert all(text.startswith("refused: not-distributed | found: ") for text in said.values()), said
    assert "made outside of a multi-worker strategy" in said["fit"]
    assert "an optimizer applies gradients outside of a multi-worker strategy" in said["loop"]
    assert "under MirroredStrategy, which is for the devices of one worker" in said["mirrored"]
    assert "keras unchanged" in lines
    for line in (
        "The 2 workers of this job must train one model together.",
        'strategy = tfmuster.strategy("multi_worker_mirrored")',
        "with strategy.scope():",
        "--distribute",
        "--independent",
    ):
        assert line in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "package"),
    [
        ([sys.executable, str(PROGRAMS / "alone.py"), "imports"], "keras"),
        ([*TFMUSTER, "worker", "--", str(PROGRAMS / "alone.py")], "tf_keras"),
    ],
    ids=["started-manually", "worker-verb-keras-2"],
)
def test_no_way_to_train_alone_elsewhere(command: list[str], package: str) -> None:
    more = {"TF_USE_LEGACY_KERAS": "1"} if package == "tf_keras" else {}
    done = one_of(2, *command, **more)
    assert done.returncode == 1, done.stderr
    said = ways(done.stdout)
    assert set(said) == set(WAYS), done.stderr
    assert all(text.startswith("refused: not-distributed") for text in said.values()), said
    assert f"{package} unchanged" in done.stdout


@pytest.mark.slow
def test_who_may_train_alone() -> None:
    program = str(PROGRAMS / "alone.py")
    for kind, workers, more in (("evaluator", 2, {}), ("worker", 1, {}), ("worker", 2, {"env": "1"})):
        env = {"TFMUSTER_INDEPENDENT": more["env"]} if more else {}
        done = one_of(workers, sys.executable, program, "imports", kind=kind, **env)
        assert done.returncode == 0, done.stderr
        assert set(ways(done.stdout).values()) == {"trained"}
        line = "tfmuster: each of the 2 workers trains a model of its own (independent=True)"
        assert done.stderr.count(line) == (1 if more else 0)


def test_a_job_that_trains_independently_says_so(tmp_path: Path) -> None:
    write(tmp_path, "train.py", "import os", "print(os.environ['TFMUSTER_INDEPENDENT'])")
    done = tfmuster("launch", "--all-output", "-n", 2, "--independent", "train.py", cwd=tmp_path)
    assert sorted(done.stdout.splitlines()) == ["worker 0 | 1", "worker 1 | 1"]
    assert read_json(only_run(tmp_path) / "run.json")["independent"] is True
    shown = tfmuster("runs", "show", cwd=tmp_path).stdout
    assert "each worker trains a model of its own (--independent)" in shown

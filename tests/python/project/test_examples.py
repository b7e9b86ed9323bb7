"""The examples, run as their readers run them, shortened by their own arguments."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.jobs import free_addresses
from support.paths import ROOT

Start = Callable[..., subprocess.Popen[str]]
EXAMPLES = ROOT / "examples"
ENVIRONMENT = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "TFMUSTER_DATASET": "synthetic"}
ENVIRONMENT.pop("TF_CONFIG", None)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
in_both_languages = pytest.mark.parametrize("suffix", [".py", ".R"])


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start an example in a folder of its own; whatever still runs when the test ends is ended."""
    started = []

    def start(example: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        interpreter = sys.executable if example.endswith(".py") else shutil.which("Rscript")
        if interpreter is None:
            pytest.skip("R is not installed")
        process = subprocess.Popen(
            [interpreter, EXAMPLES / example, *arguments],
            cwd=tmp_path,
            env={"RETICULATE_PYTHON": sys.executable, **ENVIRONMENT, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def output(process: subprocess.Popen[str]) -> str:
    """What it printed, once it has ended well."""
    text, _ = process.communicate(timeout=200)
    assert process.returncode == 0, text[-3000:]
    return text


@in_both_languages
def test_local_training(suffix: str, start: Start) -> None:
    text = output(start(f"local_training{suffix}", "synthetic"))
    assert "global batch 64" in text
    assert "epoch 3/3" in text
    reached = re.search(r"test accuracy (0\.\d+), loss", text)
    assert reached is not None and float(reached[1]) > 0.93


@in_both_languages
@pytest.mark.cluster
def test_four_workers_started_by_hand(suffix: str, tmp_path: Path, start: Start) -> None:
    addresses = ",".join(free_addresses(4))
    workers = [start(f"four_workers{suffix}", str(i), TFMUSTER_WORKERS=addresses) for i in range(4)]
    texts = [output(worker) for worker in workers]
    assert "The model is in" in texts[0]
    assert not any("The model is in" in text for text in texts[1:])
    assert (tmp_path / "model.keras").is_file()


@in_both_languages
def test_four_workers_without_a_number(suffix: str, start: Start) -> None:
    process = start(f"four_workers{suffix}")
    text, _ = process.communicate(timeout=100)
    assert process.returncode == 1
    assert "needs the number of this worker, 0 to 3" in text and "Traceback" not in text


@pytest.mark.cluster
def test_two_workers_by_index(start: Start) -> None:
    options = [
        "--dataset",
        "synthetic",
        "--epochs",
        "2",
        "--steps-per-epoch",
        "5",
        "--workers",
        *free_addresses(2),
    ]
    workers = [start("two_workers.py", "--index", str(i), *options) for i in range(2)]
    last = [re.findall(r"accuracy in the last epoch: (\S+)", output(worker)) for worker in workers]
    assert last[0] == last[1] != []


@pytest.mark.parametrize("strategy", ["one_device", "central_storage", "mirrored"])
def test_choosing_strategies(strategy: str, start: Start) -> None:
    text = output(start("choosing_strategies.py", strategy, "synthetic", "1"))
    replicas = 2 if strategy == "mirrored" else 1
    assert f"{strategy} with {replicas} replica(s): test accuracy" in text


@pytest.mark.parametrize("strategy", ["central_storage", "mirrored", "multi_worker_mirrored"])
def test_choosing_strategies_from_r(strategy: str, start: Start) -> None:
    text = output(start("choosing_strategies.R", strategy, "synthetic", "1"))
    assert re.search(rf"{strategy} with \d replica\(s\)", text)
    assert "test accuracy" in text


def test_custom_loop_from_r(start: Start) -> None:
    text = output(start("custom_loop.R", "synthetic"))
    found = [float(x) for x in re.findall(r"step \d+: loss (\S+)", text)]
    assert len(found) == 5
    assert found[-1] < found[0] / 2


@pytest.mark.cluster
def test_custom_loop_from_r_on_two_workers(tmp_path: Path) -> None:
    launch = [sys.executable, "-m", "tfmuster", "launch", "--all-output", "-n", "2"]
    command = [*launch, EXAMPLES / "custom_loop.R", "synthetic"]
    done = subprocess.run(
        command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = [re.findall(rf"worker {i} \| step \d+: loss (\S+)", done.stdout) for i in (0, 1)]
    assert found[0] == found[1]
    assert len(found[0]) == 5


@pytest.mark.cluster
def test_custom_loop_is_the_same_on_two_workers(tmp_path: Path, start: Start) -> None:
    alone = output(start("custom_loop.py", "synthetic"))
    command = [
        sys.executable,
        "-m",
        "tfmuster",
        "launch",
        "-n",
        "2",
        "--only-chief",
        EXAMPLES / "custom_loop.py",
    ]
    done = subprocess.run(
        [*command, "synthetic"], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr[-3000:]
    losses = [re.findall(r"step \d+: loss (\S+)", text) for text in (alone, done.stdout)]
    assert len(losses[0]) == 5
    assert [float(x) for x in losses[1]] == pytest.approx([float(x) for x in losses[0]], abs=2e-3)


@pytest.mark.cluster
def test_workers_launched_from_r(start: Start) -> None:
    text = output(start("launched_workers.R", "2", "synthetic"))
    assert "Logs and metrics are in" in text


def test_model_parallel(start: Start) -> None:
    text = output(start("model_parallel.py", "synthetic"))
    assert re.search(r"dense on 0\ndense_1 on 1\n", text)
    found = re.search(r"test accuracy (\S+)", text)
    assert found is not None
    assert float(found[1]) > 0.7

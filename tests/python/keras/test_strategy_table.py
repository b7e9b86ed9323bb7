"""The table of strategies says what is true: each cell is run, and all of them train the same."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.jobs import run_job, succeeded
from support.launching import environment, tfmuster
from support.paths import PROGRAMS
from tfmuster.strategies.by_name import STRATEGIES, strategy_table
from tfmuster.words import speaking

TASK = {"type": "worker", "index": 0}


def row(name: str, **environ: str) -> dict[str, object]:
    (found,) = [row for row in strategy_table(environ) if row["strategy"] == name]
    return found


@pytest.mark.parametrize(
    ("name", "environ", "here", "why"),
    [
        ("mirrored", {"CUDA_VISIBLE_DEVICES": "0,1"}, True, "2 GPUs"),
        ("mirrored", {"CUDA_VISIBLE_DEVICES": "-1"}, True, "the CPU; with replicas=2, two logical CPUs"),
        ("one_device", {"CUDA_VISIBLE_DEVICES": "3"}, True, "the first GPU"),
        ("multi_worker_mirrored", {}, True, "one worker; several: launch(..., workers=2)"),
        ("parameter_server", {}, False, "needs a cluster: launch(..., workers=2, control=Control(ps=1))"),
        ("tpu", {"TPU_NAME": "mine"}, True, "the TPU mine, if it can be reached"),
    ],
)
def test_what_works_here(name: str, environ: dict[str, str], here: bool, why: str) -> None:
    found = row(name, **environ)
    assert (found["here"], found["why"]) == (here, why)


def test_in_a_cluster() -> None:
    two = json.dumps({"cluster": {"worker": ["a:1", "b:1"]}, "task": TASK})
    served = json.dumps({"cluster": {"worker": ["a:1"], "ps": ["b:1"]}, "task": {"type": "ps", "index": 0}})
    assert row("multi_worker_mirrored", TF_CONFIG=two)["here"]
    assert "has no ps" in str(row("parameter_server", TF_CONFIG=two)["why"])
    assert row("parameter_server", TF_CONFIG=served)["here"]
    assert "this is ps 0" in str(row("multi_worker_mirrored", TF_CONFIG=served)["why"])
    assert "TF_CONFIG is wrong" in str(row("parameter_server", TF_CONFIG="{")["why"])


@pytest.mark.fresh
def test_the_command_prints_it_without_tensorflow(tmp_path: Path) -> None:
    done = tfmuster("strategies", cwd=tmp_path)
    assert [line.split()[0] for line in done.stdout.splitlines()[1:]] == [
        r["strategy"] for r in strategy_table()
    ]
    with speaking("shell"):
        assert "tfmuster launch -n 2 ..." in str(row("multi_worker_mirrored")["why"])
        rows = strategy_table(environment())
    assert json.loads(tfmuster("strategies", "--json", cwd=tmp_path).stdout) == rows
    assert {r["strategy"] for r in strategy_table()} == set(STRATEGIES)
    code = "import sys, tfmuster; tfmuster.strategy_table(); print('tensorflow' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "False\n"
    )


@pytest.fixture(scope="module")
def plain() -> dict[str, float]:
    return losses(succeeded(run_job("strategy_matrix.py", 0, "default", 1))[0])


def losses(done: subprocess.CompletedProcess[str]) -> dict[str, float]:
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.slow
def test_default_by_fit_and_by_loop(plain: dict[str, float]) -> None:
    assert plain["fit"] == pytest.approx(plain["loop"], abs=1e-5)
    assert plain["fit"] < 0.5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "replicas"),
    [("one_device", 1), ("mirrored", 2), ("mirrored", 4), ("central_storage", 1), ("central_storage", 2)],
)
def test_on_one_machine(name: str, replicas: int, plain: dict[str, float]) -> None:
    assert losses(succeeded(run_job("strategy_matrix.py", 0, name, replicas))[0]) == pytest.approx(
        plain, abs=1e-5
    )


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 4])
def test_multi_worker_mirrored(workers: int, plain: dict[str, float]) -> None:
    for done in succeeded(run_job("strategy_matrix.py", workers, "multi_worker_mirrored", 1)):
        assert losses(done) == pytest.approx(plain, abs=1e-5)


@pytest.mark.slow
def test_parameter_server(tmp_path: Path, plain: dict[str, float]) -> None:
    program = PROGRAMS / "strategy_matrix.py"
    done = tfmuster(
        "launch", "-q", "--ps", 1, "-n", 2, "--run-dir", "r", program, "parameter_server", 1, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    log = (tmp_path / "r" / "logs" / "worker-0.log").read_text().splitlines()
    found = json.loads([line for line in log if line.startswith("{")][-1])
    assert found["fit"] == pytest.approx(plain["fit"], abs=1e-5)
    # Asynchronous: not the same, and it learns.
    assert found["loop"] < 0.8

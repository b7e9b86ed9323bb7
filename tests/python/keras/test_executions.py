"""How many steps fit runs in one call of TensorFlow, where the user has not said."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.jobs import run_job, succeeded

STEPS, EPOCHS = 40, 3


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The folder of results of two workers, and what worker 0 counted."""
    folder = tmp_path_factory.mktemp("executions")
    succeeded(run_job("executions.py", 2, folder, env={"TFMUSTER_VERIFY": "never"}))
    counted = [json.loads((folder / f"{worker}.json").read_text()) for worker in (0, 1)]
    assert counted[0] == counted[1]
    return folder, counted[0]


@pytest.mark.parametrize("name", ["automatic", "checkpoints"])
def test_without_a_reason_against_it_an_execution_has_several_steps(
    found: tuple[Path, dict[str, Any]], name: str
) -> None:
    ends = found[1][name]["train"]
    assert len(ends) < STEPS * EPOCHS / 2
    # Every epoch ends with its last step, not before and not beyond. Keras 3.10 tells the first of a call.
    assert max(ends) < STEPS
    if tuple(map(int, version("keras").split(".")[:2])) > (3, 10):
        assert ends.count(STEPS - 1) == EPOCHS
    assert len(found[1][name]["test"]) < STEPS


@pytest.mark.parametrize("name", ["chosen", "per batch", "moving statistics"])
def test_with_a_reason_an_execution_has_one_step(found: tuple[Path, dict[str, Any]], name: str) -> None:
    assert found[1][name]["train"] == list(range(STEPS)) * EPOCHS


def test_a_callback_for_each_batch_is_called_for_each(found: tuple[Path, dict[str, Any]]) -> None:
    assert found[1]["seen"] == list(range(STEPS)) * EPOCHS


def test_the_number_of_steps_per_execution_changes_no_bit(found: tuple[Path, dict[str, Any]]) -> None:
    folder, counted = found
    chosen = dict.fromkeys(("automatic", "checkpoints", "per batch"), "chosen")
    for name, of_one_step in (chosen | {"batch norm": "batch norm, chosen"}).items():
        one = np.load(folder / f"{of_one_step}-0.npz")
        for worker in (0, 1):
            other = np.load(folder / f"{name}-{worker}.npz")
            for key in one.files:
                np.testing.assert_array_equal(other[key], one[key], err_msg=f"{name} {worker} {key}")
        np.testing.assert_allclose(counted[name]["loss"], counted[of_one_step]["loss"], rtol=1e-6)


@pytest.mark.parametrize("name", ["automatic", "chosen", "moving statistics"])
def test_an_epoch_has_one_collective_operation_outside_of_its_steps(
    found: tuple[Path, dict[str, Any]], name: str
) -> None:
    """It reads the loss and the metric: TensorFlow alone has four for these, and as many to reset them."""
    assert found[1][name]["reductions"] == EPOCHS


def test_fit_ends_without_waiting_for_the_autotuning_thread_of_its_data() -> None:
    """The thread sleeps for up to 0.6 s in a call of half a second, and `fit` used to take that longer."""
    # Nobody answers at this proxy. Workers that were started manually must not use it, either.
    proxies = {f"{kind}_proxy": "http://127.0.0.1:9" for kind in ("http", "grpc")}
    done = succeeded(run_job("prompt_end.py", 2, env=proxies))
    ends = [float(line) for line in done[0].stdout.split()]
    assert sorted(ends)[len(ends) // 2] < 0.05

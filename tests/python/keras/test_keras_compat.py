"""Keras 3 on several workers against one process on the same global batches."""

from __future__ import annotations

import csv
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from support.jobs import run_job, succeeded

pytestmark = pytest.mark.slow

#: Scenarios of programs/keras_scenarios.py whose result one process gives as well.
SAME_AS_ONE_PROCESS = [
    "numpy_input",
    "adam",
    "tf_data_shuffled",
    "tf_data_repeated",
    "partial_last_batch",
    "validation_data",
    "validation_split",
    "sample_weight",
    "class_weight",
    "regularizer",
    "metrics_with_state",
    "steps_per_execution",
    "gradient_accumulation",
    "momentum_clipping_and_decay",
    "run_eagerly",
    "batch_norm",
    "batch_norm_with_empty_part",
    "dropout",
    "two_inputs_two_outputs",
    "subclass_with_its_own_step",
    "evaluate_and_predict",
    "predict_several_outputs",
    "single_batches",
    "early_stopping",
    "backup_and_restore",
]
#: Scenarios that depend on the number of workers, or are about files.
WORKERS_AGREE = ["batch_norm_local", "callbacks_that_write"]
WORKERS_AGREE += ["step_in_its_own_thread", "calls_in_a_replica"]
#: What is different with more workers: uneven parts, and what depends on their number.
FOUR_WORKERS = ["numpy_input", "tf_data_repeated", "partial_last_batch", "class_weight", "metrics_with_state"]
FOUR_WORKERS += ["gradient_accumulation", "batch_norm", "batch_norm_with_empty_part", "evaluate_and_predict"]
FOUR_WORKERS += ["single_batches", *WORKERS_AGREE]
if os.environ.get("TFMUSTER_EVERY_CASE"):
    FOUR_WORKERS = [*SAME_AS_ONE_PROCESS, *WORKERS_AGREE]
#: Adam divides by the root of its second moment, which magnifies rounding where gradients are small.
WEIGHT_TOLERANCE = {"adam": 1e-4, "backup_and_restore": 1e-4}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """The results of one process, two workers and four workers, by the number of workers."""
    done = {}
    for workers in (0, 2, 4):
        done[workers] = tmp_path_factory.mktemp(f"workers-{workers}")
        chosen = FOUR_WORKERS if workers == 4 else ()
        succeeded(run_job("keras_scenarios.py", workers, done[workers], *chosen, limit=500))
    return done


def result(folder: Path, scenario: str, worker: int = 0) -> dict[str, np.ndarray]:
    with np.load(folder / f"{scenario}-{worker}.npz") as file:
        return dict(file)


def on_workers(scenarios: list[str]) -> list[tuple[str, int]]:
    """Each scenario on two workers, and some on four."""
    on_four = [(scenario, 4) for scenario in scenarios if scenario in FOUR_WORKERS]
    return [*((scenario, 2) for scenario in scenarios), *on_four]


@pytest.mark.timeout(1600)
@pytest.mark.parametrize(("scenario", "workers"), on_workers([*SAME_AS_ONE_PROCESS, *WORKERS_AGREE]))
def test_workers_are_bitwise_equal(folders: dict[int, Path], scenario: str, workers: int) -> None:
    first = result(folders[workers], scenario)
    assert any(name.startswith("weight_") for name in first)
    for worker in range(1, workers):
        other = result(folders[workers], scenario, worker)
        assert other.keys() == first.keys()
        for name, value in first.items():
            assert np.isfinite(value).all(), name
            np.testing.assert_array_equal(other[name], value, err_msg=name)


@pytest.mark.timeout(1600)
@pytest.mark.parametrize(("scenario", "workers"), on_workers(SAME_AS_ONE_PROCESS))
def test_same_as_one_process(folders: dict[int, Path], scenario: str, workers: int) -> None:
    one, several = result(folders[0], scenario), result(folders[workers], scenario)
    assert several.keys() == one.keys()
    for name, value in one.items():
        tolerance = WEIGHT_TOLERANCE.get(scenario, 1e-5) if name.startswith("weight_") else 1e-4
        np.testing.assert_allclose(several[name], value, rtol=0, atol=tolerance, err_msg=name)


@pytest.mark.timeout(1600)
@pytest.mark.parametrize("workers", [2, 4])
def test_local_statistics_are_those_of_a_workers_rows(folders: dict[int, Path], workers: int) -> None:
    of_all, local = (result(folders[workers], name) for name in ("batch_norm", "batch_norm_local"))
    assert 1e-4 < np.abs(local["history_loss"] - of_all["history_loss"]).max() < 0.3


@pytest.mark.timeout(1600)
@pytest.mark.parametrize("workers", [2, 4])
def test_a_step_runs_in_the_callers_thread_with_the_same_numbers(
    folders: dict[int, Path], workers: int
) -> None:
    done = result(folders[workers], "step_in_its_own_thread")
    assert done["in_main_thread"].tolist() == [True, False]
    weights = [name for name in done if name.startswith("weight_")]
    assert len(weights) == 8
    for name in weights:
        np.testing.assert_array_equal(done[name.replace("weight", "stock")], done[name])


@pytest.mark.timeout(1600)
@pytest.mark.parametrize("workers", [2, 4])
def test_calls_inside_of_strategy_run_reach_all_workers(folders: dict[int, Path], workers: int) -> None:
    done = result(folders[workers], "calls_in_a_replica")
    total = workers * (workers + 1) / 2
    assert done["sums"].tolist() == [[total, total, total, 1.0]] * 2
    assert done["function"].tolist() == [total, total, total, 1.0]
    assert done["loop"] == total * workers**2
    assert done["nothing"].tolist() == [[0, 3], [2 * workers, 0], [workers * (workers - 1) / 2, 2]]
    assert not done["recorded"]


@pytest.mark.timeout(1600)
@pytest.mark.parametrize("workers", [2, 4])
def test_only_the_chief_writes(folders: dict[int, Path], workers: int) -> None:
    shared = folders[workers] / "shared"
    names = ["1.weights.h5", "2.weights.h5", "3.weights.h5", "best.keras", "last.keras"]
    names += ["log.csv", "tensorboard", "api.keras", "models.h5", "served"]
    names += ["positional.keras", "positional.weights.h5", "checkpoints"]
    names += ["model.png"] if shutil.which("dot") else []
    assert sorted(path.name for path in shared.iterdir()) == sorted(names)
    with open(shared / "log.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    expected = result(folders[workers], "callbacks_that_write")["history_loss"]
    assert [float(row["loss"]) for row in rows] == pytest.approx(list(expected))
    assert len(list((shared / "tensorboard" / "train").iterdir())) == 1
    files = [f"ckpt-{number}.{part}" for number in (19, 20) for part in ("data-00000-of-00001", "index")]
    assert sorted(path.name for path in (shared / "checkpoints").iterdir()) == ["checkpoint", *files]


@pytest.mark.timeout(1600)
def test_a_saved_model_is_plain_keras(folders: dict[int, Path]) -> None:
    import keras

    model = keras.saving.load_model(folders[2] / "shared" / "last.keras")
    expected = result(folders[2], "callbacks_that_write")
    for index, weight in enumerate(model.get_weights()):
        np.testing.assert_array_equal(weight, expected[f"weight_{index}"])


@pytest.mark.timeout(120)
def test_canary_stock_keras_still_needs_the_repair() -> None:
    """Fails on the day that Keras trains on several workers by itself; then keras_compat can shrink."""
    done = run_job("stock_fit.py", 2, limit=100)
    assert any(process.returncode != 0 for process in done), "stock Keras's fit works under MWMS now"
    assert any("unsupported type" in process.stderr for process in done)


@pytest.mark.timeout(120)
def test_tf_keras_keeps_working() -> None:
    pytest.importorskip("tf_keras")
    done = succeeded(run_job("legacy_fit.py", 2, limit=100, env={"TF_USE_LEGACY_KERAS": "1"}))
    assert done[0].stdout == done[1].stdout != ""


@pytest.mark.timeout(120)
def test_xla_compiles_what_is_not_a_collective_operation() -> None:
    compiled = "Compiled cluster using XLA!"
    for process in succeeded(run_job("jit_compile.py", 2, limit=100, env={"TF_CPP_MIN_LOG_LEVEL": "0"})):
        first, then = process.stderr.split("next: jit_compile\n")
        assert compiled not in first
        assert compiled in then

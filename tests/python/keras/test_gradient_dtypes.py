"""Gradients that travel in 16 bits, and how many collectives a step has."""

from __future__ import annotations

import functools
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from support.jobs import run_job, succeeded

#: A bfloat16 has 8 bits of precision, a float16 has 11.
ROUNDING = {"bfloat16": 2**-8, "float16": 2**-11}
REDUCE_FLOAT32 = f"CollectiveReduceV2 {tf.float32.as_datatype_enum}"
GATHER_16_BITS = f"CollectiveGatherV2 {tf.float16.as_datatype_enum}"
ALL_TO_ALL_16_BITS = f"CollectiveAllToAllV2 {tf.float16.as_datatype_enum}"
#: A program's own strategy, as under ``tfmuster launch``.
HOOKED = (
    "from tfmuster.worker.import_hook import install_import_hook; install_import_hook(); "
    "import tensorflow as tf; tf.distribute.MultiWorkerMirroredStrategy()"
)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int, str], Path]:
    """Train so many workers with this communication, once. Return the folder of what came of it."""

    @functools.cache
    def folder_of(workers: int, communication: str) -> Path:
        folder = tmp_path_factory.mktemp(f"gradients-{workers}-{communication}")
        env = {"TFMUSTER_COMMUNICATION": communication}
        succeeded(run_job("gradient_dtypes.py", workers, folder, env=env))
        return folder

    return folder_of


@pytest.fixture(
    params=[(2, "auto"), (2, "tcp"), (3, "tcp"), (2, "tensorflow"), (3, "tensorflow")],
    ids="{0[0]}-{0[1]}".format,
)
def trained(request: pytest.FixtureRequest, folders: Callable[[int, str], Path]) -> tuple[int, Path]:
    """How many workers have trained, and the folder of what came of it."""
    return request.param[0], folders(*request.param)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_all_workers_have_the_same_weights(trained: tuple[int, Path], dtype: str) -> None:
    workers, folder = trained
    first = np.load(folder / f"{dtype}-0.npz")
    for worker in range(1, workers):
        other = np.load(folder / f"{dtype}-{worker}.npz")
        for name in first.files:
            np.testing.assert_array_equal(other[name], first[name])


@pytest.mark.parametrize("dtype", list(ROUNDING))
def test_weights_differ_from_those_of_float32_by_the_rounding(trained: tuple[int, Path], dtype: str) -> None:
    exact, rounded = (np.load(trained[1] / f"{name}-0.npz") for name in ("float32", dtype))
    apart = max(np.abs(exact[name] - rounded[name]).max() for name in exact.files)
    assert 0 < apart < ROUNDING[dtype]


@pytest.mark.parametrize("how", ["auto", "tcp"])
@pytest.mark.parametrize("dtype", ["float32", *ROUNDING])
def test_two_workers_have_the_bits_of_tensorflows_collectives(
    folders: Callable[[int, str], Path], dtype: str, how: str
) -> None:
    own, stock = (np.load(folders(2, name) / f"{dtype}-0.npz") for name in (how, "tensorflow"))
    for name in own.files:
        np.testing.assert_array_equal(own[name], stock[name])


@pytest.mark.parametrize("workers", [2, 3])
def test_a_step_has_one_sum_for_its_dense_gradients(
    folders: Callable[[int, str], Path], workers: int
) -> None:
    counts = json.loads((folders(workers, "tcp") / "0.json").read_text())["collectives"]
    for dtype, count in counts.items():
        # In the loop over steps: one for the dense gradients, and two for the sparse one (how many rows each
        # worker has, and the rows). One for the logs, once per execution.
        sums = {name: number for name, number in count.items() if name.startswith("TfmusterSum")}
        wire = 0 if dtype == "float32" else tf.as_dtype(dtype).as_datatype_enum
        assert sums == ({"TfmusterSum 0": 4} if not wire else {"TfmusterSum 0": 3, f"TfmusterSum {wire}": 1})
        assert REDUCE_FLOAT32 not in count


@pytest.mark.parametrize("workers", [2, 3])
def test_a_step_has_one_collective_for_its_dense_gradients(
    folders: Callable[[int, str], Path], workers: int
) -> None:
    folder = folders(workers, "tensorflow")
    counts = json.loads((folder / "0.json").read_text())["collectives"]
    # One for the gradients, in the loop over steps; one for the logs, once per execution.
    assert counts["float32"][REDUCE_FLOAT32] == 2
    for dtype in ROUNDING:
        assert counts[dtype][REDUCE_FLOAT32] == 1
        assert counts[dtype][GATHER_16_BITS] == 1
        assert counts[dtype].get(ALL_TO_ALL_16_BITS, 0) == (workers > 2)


@pytest.mark.skipif(not shutil.which("ss"), reason="ss of iproute2 counts the bytes")
def test_bytes_per_step_are_as_told(trained: tuple[int, Path], folders: Callable[[int, str], Path]) -> None:
    workers, folder = trained
    if folder == folders(2, "auto"):
        return  # these workers read most from each other's memory
    for worker in range(workers):
        found = json.loads((folder / f"{worker}.json").read_text())["traffic"]
        assert found.keys() >= {"float32", *ROUNDING}
        for dtype, (told, counted) in found.items():
            # 204,001 weights.
            assert told == 204_001 * (4 if dtype == "float32" else 2) * 2 * (workers - 1) / workers
            # Three workers add parts of a vector that differ by up to 64 bytes.
            assert 0.999 * told < counted < 1.1 * told, found


@pytest.mark.slow
def test_accuracy_after_five_epochs_is_that_of_float32() -> None:
    accuracy = json.loads(succeeded(run_job("gradient_accuracy.py", 2))[0].stdout.splitlines()[-1])
    assert accuracy["float32"] > 0.9
    for dtype in ROUNDING:
        assert abs(accuracy[dtype] - accuracy["float32"]) < 0.003, accuracy


@pytest.mark.parametrize("make", ["tfmuster.strategy('multi_worker_mirrored')", HOOKED])
def test_an_unknown_type_in_the_environment_is_refused_before_anyone_is_waited_for(make: str) -> None:
    code = f"import tfmuster; {make}"
    for done in run_job("snippet.py", 2, code, limit=60, env={"TFMUSTER_GRADIENT_DTYPE": "int8"}):
        assert json.loads(done.stdout)["reason"] == "gradient-dtype", done.stdout + done.stderr

"""The four MNIST models: 2 and 4 workers against one process on the same global batches."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from support.jobs import run_job, succeeded
from tfmuster.digits.recipes import RECIPES

pytestmark = pytest.mark.slow

#: Models compared with one process that takes each batch at once. That adds its terms in another order, and
#: where a rounding tips a ReLU or the choice of a max-pool, weights in float32 go apart:
#: docs/developers/support.md.
TOLERANCE = {"float32": {"cnn": 1e-5, "softmax": 1e-5}, "float64": dict.fromkeys(RECIPES, 1e-5)}


TYPES = ("float32", "float64")
#: Four workers in float64, in which all models can be compared.
TRAINED = ((2, "float32"), (2, "float64"), (4, "float64"))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all trainings: ``one-2-float32`` and so on, and ``halves``."""
    folder = tmp_path_factory.mktemp("trained")

    def train(processes: int, *trainings: tuple[str, int, str, int]) -> None:
        for name, *_ in trainings:
            (folder / name).mkdir()
        given = [[str(folder / name), *others] for name, *others in trainings]
        succeeded(run_job("model_parity.py", processes, json.dumps(given), limit=500))

    each = [(f"one-{workers}-{floatx}", workers, floatx, 1) for workers, floatx in TRAINED]
    train(0, *each, ("halves", 2, "float32", 2))
    train(2, *[(f"several-2-{floatx}", 2, floatx, 1) for floatx in TYPES])
    train(4, ("several-4-float64", 4, "float64", 1))
    return folder


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("workers", "floatx"), TRAINED)
@pytest.mark.parametrize("model", list(RECIPES))
def test_workers_train_the_model_that_one_process_trains(
    trained: Path, model: str, workers: int, floatx: str
) -> None:
    one, several = (trained / f"{kind}-{workers}-{floatx}" for kind in ("one", "several"))
    expected = dict(np.load(one / f"{model}-0.npz"))
    first = dict(np.load(several / f"{model}-0.npz"))
    assert expected.keys() == first.keys()
    assert expected["weight_0"].dtype == floatx
    for worker in range(1, workers):
        for name, value in np.load(several / f"{model}-{worker}.npz").items():
            np.testing.assert_array_equal(value, first[name], err_msg=f"worker {worker}: {name}")
    if model not in TOLERANCE[floatx]:
        return
    for name, value in expected.items():
        tolerance = TOLERANCE[floatx][model] if name.startswith("weight_") else 1e-4
        np.testing.assert_allclose(first[name], value, rtol=0, atol=tolerance, err_msg=name)


@pytest.mark.timeout(1200)
def test_two_workers_are_bitwise_one_process_that_adds_the_gradients_of_two_halves(trained: Path) -> None:
    """In float32, for all models: what data parallelism adds to the arithmetic of one process is nothing."""
    for model in RECIPES:
        first = np.load(trained / "several-2-float32" / f"{model}-0.npz")
        for name, value in np.load(trained / "halves" / f"{model}-0.npz").items():
            # Histories are sums of losses over rows and workers, in whatever order.
            tolerance = 0 if name.startswith("weight_") else 1e-5
            np.testing.assert_allclose(first[name], value, rtol=0, atol=tolerance, err_msg=f"{model} {name}")

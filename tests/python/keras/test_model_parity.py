"""The four MNIST models: 2 and 4 workers against one process on the same global batches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from support.jobs import run_job, succeeded
from tfmuster.digits.models import RECIPES

pytestmark = pytest.mark.slow

#: Models compared with one process that takes each batch at once. That adds its terms in another order, and
#: where a rounding tips a ReLU or the choice of a max-pool, weights in float32 go apart: docs/support.md.
TOLERANCE = {"float32": {"cnn": 1e-5, "softmax": 1e-5}, "float64": dict.fromkeys(RECIPES, 1e-5)}


@pytest.fixture(scope="module", params=[(2, "float32"), (2, "float64"), (4, "float32"), (4, "float64")])
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path, int, str]:
    """Folders with the results of one process and of several workers; how many workers; the type."""
    workers, floatx = request.param
    one, several = (tmp_path_factory.mktemp(f"{kind}-{workers}-{floatx}") for kind in ("one", "several"))
    succeeded(run_job("model_parity.py", 0, one, workers, env={"TEST_FLOATX": floatx}))
    succeeded(run_job("model_parity.py", workers, several, workers, env={"TEST_FLOATX": floatx}))
    return one, several, workers, floatx


@pytest.mark.timeout(500)
@pytest.mark.parametrize("model", list(RECIPES))
def test_workers_train_the_model_that_one_process_trains(
    pair: tuple[Path, Path, int, str], model: str
) -> None:
    one, several, workers, floatx = pair
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


@pytest.mark.timeout(500)
def test_two_workers_are_bitwise_one_process_that_adds_the_gradients_of_two_halves(tmp_path: Path) -> None:
    """In float32, for all models: what data parallelism adds to the arithmetic of one process is nothing."""
    env = {"TEST_FLOATX": "float32"}
    one, several = tmp_path / "one", tmp_path / "several"
    for folder in (one, several):
        folder.mkdir()
    succeeded(run_job("model_parity.py", 0, one, 2, 2, env=env))
    succeeded(run_job("model_parity.py", 2, several, 2, env=env))
    for model in RECIPES:
        first = np.load(several / f"{model}-0.npz")
        for name, value in np.load(one / f"{model}-0.npz").items():
            # Histories are sums of losses over rows and workers, in whatever order.
            tolerance = 0 if name.startswith("weight_") else 1e-5
            np.testing.assert_allclose(first[name], value, rtol=0, atol=tolerance, err_msg=f"{model} {name}")

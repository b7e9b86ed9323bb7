"""The four MNIST models: 2 and 4 workers against one process on the same global batches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from jobs import run_job, succeeded

from tfmuster.models import RECIPES

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.fixture(scope="module", params=[2, 4])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, int]:
    """Folders with the results of one process and of several workers, and how many workers."""
    workers = request.param
    one, several = (tmp_path_factory.mktemp(f"{kind}-{workers}") for kind in ("one", "several"))
    succeeded(run_job("model_parity.py", 0, one, workers))
    succeeded(run_job("model_parity.py", workers, several, workers))
    return one, several, workers


@pytest.mark.timeout(500)
@pytest.mark.parametrize("model", list(RECIPES))
def test_workers_train_the_model_that_one_process_trains(pair: tuple[Path, Path, int], model: str) -> None:
    one, several, workers = pair
    expected = dict(np.load(one / f"{model}-0.npz"))
    first = dict(np.load(several / f"{model}-0.npz"))
    for worker in range(1, workers):
        for name, value in np.load(several / f"{model}-{worker}.npz").items():
            np.testing.assert_array_equal(value, first[name], err_msg=f"worker {worker}: {name}")
    # Adam and RMSprop divide by the root of a second moment, which magnifies rounding.
    weights = 1e-5 if RECIPES[model].optimizer == "sgd" else 1e-4
    assert expected.keys() == first.keys()
    for name, value in expected.items():
        tolerance = weights if name.startswith("weight_") else 1e-4
        np.testing.assert_allclose(first[name], value, rtol=0, atol=tolerance, err_msg=name)

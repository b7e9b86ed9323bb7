"""Programs on several workers against stock Keras in one process: weights, histories, predictions."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

from support.jobs import run_job

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from cases.registry import Case, registered  # noqa: E402

MODULES = ("callbacks", "data", "layers", "loops", "losses", "methods", "metrics", "optimizers", "steps")
WORKERS = 2


def cases() -> list[Case]:
    for module in MODULES:
        importlib.import_module(f"cases.{module}")
    return registered(MODULES)


class Sessions:
    """The results of one process and of several workers; all cases run when the first is asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._said: dict[int, str] = {}

    def result(self, case: Case, workers: int, worker: int = 0) -> dict[str, np.ndarray]:
        folder = self._folder / str(workers)
        if workers not in self._said:
            folder.mkdir()
            done = run_job(str(HERE / "session.py"), workers, folder, *MODULES, limit=1500)
            self._said[workers] = "\n".join(p.stderr[-2000:] for p in done)
        error = folder / f"{case.name}-{worker}.txt"
        if error.exists():
            pytest.fail(f"worker {worker} of {workers}: {error.read_text()[-3000:]}", pytrace=False)
        file = folder / f"{case.name}-{worker}.npz"
        if not file.exists():
            pytest.fail(f"no result of worker {worker} of {workers}\n{self._said[workers]}")
        with np.load(file) as arrays:
            return dict(arrays)


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Sessions:
    return Sessions(tmp_path_factory.mktemp("differential"))


@pytest.mark.timeout(3100)
@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_same_as_one_process(sessions: Sessions, case: Case) -> None:
    several = sessions.result(case, WORKERS)
    for worker in range(1, WORKERS):
        other = sessions.result(case, WORKERS, worker)
        assert other.keys() == several.keys()
        for name, value in several.items():
            np.testing.assert_array_equal(other[name], value, err_msg=f"worker {worker}: {name}")
    one = sessions.result(case, 0)
    assert one.keys() == several.keys() and one
    if case.differs is None:
        for name, value in one.items():
            if value.dtype.kind == "U":
                np.testing.assert_array_equal(several[name], value, err_msg=name)
                continue
            tolerance = case.tolerance if name.startswith("weight_") else max(1e-4, case.tolerance)
            np.testing.assert_allclose(several[name], value, rtol=1e-4, atol=tolerance, err_msg=name)

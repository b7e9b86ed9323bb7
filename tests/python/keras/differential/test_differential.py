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
from cases.registry import Case, on_four_workers, registered  # noqa: E402

MODULES = ("callbacks", "data", "layers", "loops", "losses", "methods", "metrics", "optimizers", "steps")


def cases() -> list[Case]:
    for module in MODULES:
        importlib.import_module(f"cases.{module}")
    return registered(MODULES)


class Sessions:
    """The results of one process and of several workers, for the cases that pytest has chosen."""

    def __init__(self, folder: Path, chosen: dict[int, list[Case]]) -> None:
        self._folder = folder
        self._chosen = chosen
        self._said: dict[int, str] = {}

    def result(self, case: Case, workers: int, worker: int = 0) -> dict[str, np.ndarray]:
        folder = self._folder / str(workers)
        if workers not in self._said:
            folder.mkdir()
            names = [f"{each.module}.{each.name}" for each in self._chosen[workers]]
            done = run_job(str(HERE / "session.py"), workers, folder, *names, limit=2900)
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
def sessions(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Sessions:
    calls = [item.callspec.params for item in request.session.items if item.path == request.path]
    chosen = {
        workers: [call["case"] for call in calls if call["workers"] == workers or not workers]
        for workers in (0, *dict.fromkeys(call["workers"] for call in calls))
    }
    chosen[0] = list({case.name: case for case in chosen[0]}.values())
    return Sessions(tmp_path_factory.mktemp("differential"), chosen)


@pytest.mark.timeout(3100)
@pytest.mark.parametrize(
    ("workers", "case"),
    [(2, case) for case in cases()] + [(4, case) for case in on_four_workers(cases())],
    ids=lambda value: value.name if isinstance(value, Case) else f"{value}_workers",
)
def test_same_as_one_process(sessions: Sessions, workers: int, case: Case) -> None:
    several = sessions.result(case, workers)
    for worker in range(1, workers):
        other = sessions.result(case, workers, worker)
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

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

MODULES = (
    "all_rows",
    "batch_norm",
    "callbacks",
    "data",
    "layers",
    "loops",
    "losses",
    "methods",
    "metrics",
    "optimizers",
    "steps",
)


def cases() -> list[Case]:
    for module in MODULES:
        importlib.import_module(f"cases.{module}")
    return registered(MODULES)


#: Sessions that share the cases, so that several processes of pytest can run them, and none takes too long.
PARTS = 3


def shares() -> list[tuple[str, Case]]:
    """Return the cases with the session of each, whose name begins with its number of workers."""
    all_cases = cases()
    return [
        (f"{workers}_workers_{number * PARTS // len(chosen) + 1}", case)
        for workers, chosen in ((2, all_cases), (4, on_four_workers(all_cases)))
        for number, case in enumerate(chosen)
    ]


class Session:
    """What several workers and one process have made of the cases that pytest has chosen for them."""

    def __init__(self, folder: Path, workers: int, cases: list[Case]) -> None:
        self.workers = workers
        self._folder = folder
        self._names = [f"{case.module}.{case.name}" for case in cases]
        self._said: dict[int, str] = {}

    def result(self, case: Case, worker: int | None) -> dict[str, np.ndarray]:
        """Return the arrays of one of the workers, or with None of one process."""
        workers = 0 if worker is None else self.workers
        folder = self._folder / str(workers)
        if workers not in self._said:
            folder.mkdir()
            done = run_job(str(HERE / "session.py"), workers, folder, *self._names, limit=2900)
            self._said[workers] = "\n".join(p.stderr[-2000:] for p in done)
        error = folder / f"{case.name}-{worker or 0}.txt"
        if error.exists():
            pytest.fail(f"worker {worker} of {workers}: {error.read_text()[-3000:]}", pytrace=False)
        file = folder / f"{case.name}-{worker or 0}.npz"
        if not file.exists():
            pytest.fail(f"no result of worker {worker} of {workers}\n{self._said[workers]}")
        with np.load(file) as arrays:
            return dict(arrays)

    def notes(self, case: Case) -> list[str]:
        """Return what the first worker notes of the proofs of a case's first steps."""
        file = self._folder / str(self.workers) / f"{case.name}-0.notes"
        return file.read_text().splitlines()


@pytest.fixture(scope="module")
def sessions(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Session]:
    """The sessions by their names. Each runs with its first test."""
    calls = [item.callspec.params for item in request.session.items if item.path == request.path]
    return {
        name: Session(
            tmp_path_factory.mktemp("differential"),
            int(name[0]),
            [call["case"] for call in calls if call["session"] == name],
        )
        for name in {call["session"] for call in calls}
    }


@pytest.mark.timeout(3100)
@pytest.mark.parametrize(
    ("session", "case"),
    shares(),
    ids=lambda value: value.name if isinstance(value, Case) else value,
)
def test_same_as_one_process(sessions: dict[str, Session], session: str, case: Case) -> None:
    together = sessions[session]
    several = together.result(case, 0)
    for worker in range(1, together.workers):
        other = together.result(case, worker)
        assert other.keys() == several.keys()
        for name, value in several.items():
            np.testing.assert_array_equal(other[name], value, err_msg=f"worker {worker}: {name}")
    if case.differs is None:
        notes = together.notes(case)
        assert all("equal to one process" in note or "it has no graph" in note for note in notes), notes
    one = together.result(case, None)
    assert one.keys() == several.keys() and one
    if case.differs is None:
        for name, value in one.items():
            if value.dtype.kind == "U":
                np.testing.assert_array_equal(several[name], value, err_msg=name)
                continue
            tolerance = case.tolerance if name.startswith("weight_") else max(1e-4, case.tolerance)
            np.testing.assert_allclose(several[name], value, rtol=1e-4, atol=tolerance, err_msg=name)

"""Compare what the scenarios of a program leave in one process and on two workers."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def arrays(folder: Path, scenario: str, worker: int = 0) -> dict[str, np.ndarray]:
    """The arrays that a worker has left."""
    with np.load(folder / f"{scenario}-{worker}.npz") as file:
        return dict(file)


def same_as_one_process(one: Path, two: Path, scenario: str) -> None:
    """Fail unless both workers have left the same arrays, and one process the same within 1e-5."""
    alone, first, second = arrays(one, scenario), arrays(two, scenario), arrays(two, scenario, 1)
    assert alone.keys() == first.keys() == second.keys()
    for name, value in alone.items():
        np.testing.assert_array_equal(second[name], first[name], err_msg=name)
        np.testing.assert_allclose(first[name], value, rtol=0, atol=1e-5, err_msg=name)

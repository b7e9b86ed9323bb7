"""The first step of several workers is computed as one process would, too: what differs is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.jobs import run_job

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

#: What is refused, and what the text says of it.
REFUSED = {
    "rows coupled": ["loss is ", " in one process; gradients of 2 of 2 weights (retrieval/dense/kernel: by "],
    "covariance of rows": ["loss is ", "gradients of ", "tfmuster.all_rows()"],
    "product of rows": ["what the step itself changes of 1 of 1 weights (product/variable: ", "all_rows()"],
    "mixed rows": ["gradients of "],
    "gradients halved": ["found: gradients of 4 of 4 weights (dense/kernel: 0.5 times, dense/bias: 0.5 "],
    "a gradient left out": ["found: gradients of 1 of 4 weights (last/bias: by 100%)"],
    "a metric doubled": ["loss is ", " of 4 states of metrics (loss/total: 2 times)"],
    "a state averaged": ["found: what the step itself changes of 1 of 1 weights (count/variable: 0.5 times)"],
}
#: What trains, and the notes on it.
TRAINS = {
    "rows coupled, with all_rows": [
        "first step of fit equal to one process: 2 gradients, largest difference "
    ],
    "tf.random": ["not that of one process, because of random numbers with a state: loss is "],
    "root of a mean": ["not that of one process, because of a loss that is a function of a mean of rows: "],
    "no fault": [
        "the first step of fit equal to one process: 4 gradients, largest difference ",
        "the step of a smaller batch of fit equal to one process: 4 gradients, largest difference ",
    ],
    "one batch": ["the first step of fit equal to one process: 4 gradients, largest difference "],
    "little memory of a worker": ["with that of one process: that would need more than the free memory"],
    "never": [],
    "always": [
        "the first step of fit equal to one process: 4 gradients",
        "the step of a smaller batch of fit equal to one process: 4 gradients",
    ],
    "auto": [],
    "eager": ["the first step was not compared with that of one process: it has no graph"],
}


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, dict[str, Any]]]:
    """What each worker says of its steps, by their names."""
    done = run_job("first_steps.py", 2, tmp_path_factory.mktemp("steps"))
    assert all(process.returncode == 0 for process in done), done[0].stderr[-3000:]
    said = [[json.loads(line) for line in process.stdout.splitlines() if line[:1] == "{"] for process in done]
    return [{step["name"]: step for step in of_worker} for of_worker in said]


@pytest.mark.parametrize("name", REFUSED)
def test_what_differs_is_refused_before_it_has_changed_anything(
    name: str, steps: list[dict[str, dict[str, Any]]]
) -> None:
    for of_worker in steps:
        step = of_worker[name]
        assert step["reason"] == "first-step", step
        for text in REFUSED[name]:
            assert text in step["error"]
        assert step.get("same", True)
    assert steps[0][name]["error"] == steps[1][name]["error"]


@pytest.mark.parametrize("name", TRAINS)
def test_what_is_equal_or_known_trains_on(name: str, steps: list[dict[str, dict[str, Any]]]) -> None:
    for of_worker in steps:
        step = of_worker[name]
        assert step["error"] is None, step
        assert not step.get("same", False)
        notes = [note for note in step["notes"] if note.startswith("proof: ")]
        assert len(notes) >= len(TRAINS[name]) and bool(notes) == bool(TRAINS[name]), notes
        for text in TRAINS[name]:
            assert any(text in note for note in notes), notes

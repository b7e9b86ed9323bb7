"""Training on rows of which each worker has its own, against one process on the combined batches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from support.jobs import run_job, succeeded
from support.scenarios import arrays, same_as_one_process

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SAME_AS_ONE_PROCESS = [
    "data_sets",
    "batch_norm",
    "transformed_afterwards",
    "weights_of_rows",
    "from_function",
    "unknown_lengths",
    "repeated",
    "chosen_steps_per_execution",
    "eagerly",
    "items",
    "generators",
    "one_worker_has_none",
    "validated_and_predicted",
    "executions",
    "shard_and_off",
]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, list[str]]:
    """The folders of one process and of two workers, and the output of the workers."""
    one, two = tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("two")
    succeeded(run_job("own_rows.py", 0, one, limit=280, env={"WORKERS": "2"}))
    done = succeeded(run_job("own_rows.py", 2, two, limit=280))
    return one, two, [process.stdout for process in done]


@pytest.mark.parametrize("scenario", SAME_AS_ONE_PROCESS)
def test_weights_and_metrics_are_those_of_one_process(
    results: tuple[Path, Path, list[str]], scenario: str
) -> None:
    one, two, _ = results
    same_as_one_process(one, two, scenario)


def test_moving_statistics_are_equal_on_all_workers(results: tuple[Path, Path, list[str]]) -> None:
    first, second = (arrays(results[1], "moving_statistics", worker) for worker in (0, 1))
    for name, value in first.items():
        np.testing.assert_array_equal(second[name], value, err_msg=name)


def test_what_can_not_be_read_is_refused_on_every_worker(results: tuple[Path, Path, list[str]]) -> None:
    for worker, output in enumerate(results[2]):
        rows = (70, 43)[worker]
        assert "data own-rows: the data of worker 0 do not end; worker 1 has 6 batches" in output
        assert "data own-rows: x is a _BatchDataset, which yields batches with labels and weights" in output
        assert f"data lengths-differ: {rows - 1}, {rows}" in output
        assert "data batch-size: 0" in output
        assert "data predict-together: the layer of_the_batch normalizes with the batch" in output
        assert "data predict-together: the model calls all_rows()" in output

"""Programs in which workers would differ give the numbers of one process, or say what differs."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from support.launching import tfmuster
from support.paths import PROGRAMS

pytestmark = pytest.mark.timeout(200)

#: What the error of a program says that can not be repaired.
REFUSED = {
    "weights_on_the_chief_alone": "The weights of worker 1 differ from those of worker 0 when fit begins: ",
    "schedule_on_the_chief_alone": "callbacks that change the training LearningRateScheduler, worker 1 has ",
    "activation_of_a_stale_copy": "activation relu, worker 1 has ",
    "dropout_of_a_stale_copy": "rate 0.2, worker 1 has ",
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[dict[str, Any]]]:
    """The results of each worker of a job of one worker and of one of two."""
    folder = tmp_path_factory.mktemp("ordinary")
    told = {}
    for workers in (1, 2):
        done = tfmuster(
            "launch",
            "--all-output",
            "-n",
            workers,
            "--seed",
            1,
            PROGRAMS / "ordinary.py",
            cwd=folder,
            limit=90,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        told[workers] = [json.loads(line) for line in re.findall(r"^worker \d \| (\{.*)$", done.stdout, re.M)]
        assert len(told[workers]) == workers
    return told


def test_all_programs_work_in_one_process(results: dict[int, list[dict[str, Any]]]) -> None:
    (alone,) = results[1]
    assert not [name for name, result in alone.items() if "error" in result]
    assert alone["vocabulary_from_a_set"]["accuracy"] == 1.0
    assert alone["stop_between_two_batches"]["epochs"] == 1
    right = alone["order_of_files"]
    assert right["loss"] == pytest.approx([right["right"]] * 3)


@pytest.mark.parametrize(
    "name",
    [
        "layers_from_a_set",
        "vocabulary_from_a_set",
        "generator_of_its_own",
        "order_of_files",
        "stop_between_two_batches",
    ],
)
def test_two_workers_have_the_numbers_of_one_process(
    results: dict[int, list[dict[str, Any]]], name: str
) -> None:
    (alone,) = results[1]
    for result in (worker[name] for worker in results[2]):
        assert result.keys() == alone[name].keys(), result
        for key, value in alone[name].items():
            assert result[key] == (value if key == "order" else pytest.approx(value, rel=1e-4))


@pytest.mark.parametrize("name", REFUSED)
def test_what_differs_is_named(results: dict[int, list[dict[str, Any]]], name: str) -> None:
    for result in results[2]:
        assert REFUSED[name] in result[name]["error"], result[name]

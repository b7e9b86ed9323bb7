"""Keras's own tests: stock Keras against tfmuster's patches in one process, and on two workers.

With TFMUSTER_EVERY_CASE, as in `make matrix`, all tests of some packages run. By default, some tests of the
trainer and of metrics run on two workers. known.json has the tests that can't pass on several workers, by
reason; docs/developers/keras_tests.md says more about the reasons.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from running import PACKAGES, Outcome, collected, files, in_one_process, on_workers  # noqa: E402

EVERY = "TFMUSTER_EVERY_CASE" in os.environ
every_case = pytest.mark.skipif(not EVERY, reason="10 to 20 minutes; part of `make matrix`")
KNOWN: dict[str, dict[str, str]] = json.loads((HERE / "known.json").read_text())
TRAINER = "keras/src/trainers/trainer_test.py"
#: Metrics whose states are integers, which programs update outside of a step, too.
COUNTS = "keras/src/metrics/iou_metrics_test.py"
#: Of the trainer's tests, one of so many runs by default.
FEWER = 24


def failures(found: dict[str, Outcome]) -> dict[str, Outcome]:
    return {test: outcome for test, outcome in found.items() if outcome.result not in ("passed", "skipped")}


def check(found: dict[str, Outcome], expected: set[str]) -> None:
    new = {test: outcome.text for test, outcome in failures(found).items() if test not in expected}
    assert not new, "\n\n".join(f"{test}\n{text}" for test, text in new.items())


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    return in_one_process("stock", tmp_path_factory.mktemp("stock") / "job", files(*PACKAGES), limit=1500)


@every_case
@pytest.mark.slow
@pytest.mark.timeout(3100)
def test_patches_change_no_test_in_one_process(stock: dict[str, Outcome], tmp_path: Path) -> None:
    found = in_one_process("repaired", tmp_path / "job", files(*PACKAGES), limit=1500)
    assert found.keys() == stock.keys()
    assert sum(outcome.result == "passed" for outcome in found.values()) > 500
    check(found, set(failures(stock)))


@every_case
@pytest.mark.slow
@pytest.mark.timeout(6000)
def test_two_workers_pass_what_one_process_passes(stock: dict[str, Outcome], tmp_path: Path) -> None:
    passing = [test for test, outcome in stock.items() if outcome.result == "passed"]
    found = on_workers(tmp_path, passing, 2, limit=4300)
    check(found, {test for tests in KNOWN.values() for test in tests})


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(EVERY, reason="all of them run")
def test_two_workers_pass_some_tests_of_the_trainer_and_of_metrics(tmp_path: Path) -> None:
    if not files("trainers"):
        pytest.skip("this Keras comes without its tests")
    tests = collected(tmp_path / "collected", TRAINER)[::FEWER]
    assert len(tests) > 5
    tests += collected(tmp_path / "metrics", COUNTS)
    found = on_workers(tmp_path, tests, 2, limit=250)
    # JAX, PyTorch and Grain are not installed here.
    missing = {test for test, outcome in found.items() if "ModuleNotFoundError" in outcome.text}
    check(found, missing | {test for tests in KNOWN.values() for test in tests})

"""Run tests of Keras's wheel, and write what came of each to FOLDER/<worker>.jsonl, a line each.

Usage: run.py collect|stock|repaired|workers FOLDER; FOLDER/tests has a file of tests, or one test of it, in
each line, relative to the folder that has the package keras.

Several workers run the same tests in lock-step: each waits for the others before the next test. A test that
ends differently on two workers leaves them with different numbers of collective operations, so the workers
leave after it, with exit code 0.
"""

from __future__ import annotations

import gc
import itertools
import json
import os
import sys
import time
import types
from importlib.util import find_spec
from pathlib import Path
from typing import Any

way, folder = sys.argv[1], Path(sys.argv[2])
tests = (folder / "tests").read_text(encoding="utf-8").splitlines()
spec = find_spec("keras")
assert spec is not None and spec.origin is not None
packages = Path(spec.origin).parents[1]

if way == "repaired":
    from tfmuster import keras_compat

    assert keras_compat.install()

import numpy as np  # noqa: E402
import pytest  # noqa: E402
from keras.src.backend import backend  # noqa: E402

CONFIG = json.loads(os.environ.get("TF_CONFIG", "{}"))
TASK = CONFIG.get("task", {"index": 0})
#: Seconds that a test may take on another worker.
LONGEST = 60


def skip_if_backend(given: str, reason: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(backend() == given, reason=reason)


# Tests of all backends import these: a module of Keras's repository, and JAX, which others than this use.
sys.modules["conftest"] = types.ModuleType("conftest")
sys.modules["conftest"].skip_if_backend = skip_if_backend  # type: ignore[attr-defined]
if find_spec("jax") is None:
    sys.modules["jax"] = types.ModuleType("jax")


if way == "workers":
    from keras.src import testing

    new_seed = np.random.seed
    # Tests draw their data after seed(None), but all workers need the same data.
    np.random.seed = lambda seed=None: new_seed(1337 if seed is None else seed)
    directories = itertools.count()

    def get_temp_dir(self: Any) -> str:
        """Return a folder of this worker's own, as on machines that share none."""
        own = folder / str(TASK["index"]) / f"temporary-{next(directories)}"
        own.mkdir(parents=True)
        return str(own)

    testing.TestCase.get_temp_dir = get_temp_dir


class LockStep:
    """Writes each test's outcome, and waits for the other workers before the next one."""

    def __init__(self) -> None:
        self._workers = len(CONFIG["cluster"]["worker"]) if CONFIG else 1
        self._file = (folder / f"{TASK['index']}.jsonl").open("a", encoding="utf-8")
        self._reports: list[pytest.TestReport] = []
        self._ended = 0
        # Keras's root conftest.py is not in the wheel.
        self._no_devices = pytest.mark.skip(reason="Requires multiple devices")

    def pytest_configure(self, config: pytest.Config) -> None:
        for marker in ("requires_trainable_backend", "multi_device"):
            config.addinivalue_line("markers", marker)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        # Thousands of tests in the command line take pytest minutes.
        items[:] = [item for item in items if {item.nodeid, item.nodeid.partition("::")[0]} & chosen]
        for item in items:
            if "multi_device" in item.keywords:
                item.add_marker(self._no_devices)
            if way == "workers" and "tf_distribute" in item.name:
                # It resets TensorFlow's context, which no other test survives on several workers.
                item.add_marker(pytest.mark.skip(reason="makes a strategy of its own"))

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if way == "collect":
            for item in session.items:
                self._write(test=item.nodeid, outcome="collected")
            pytest.exit("collected", returncode=0)
        # The collector would scan TensorFlow's half a million objects again and again.
        gc.freeze()

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._write(test=report.nodeid, outcome="failed", text=_last_lines(report), seconds=0.0)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        np.random.seed(7)
        self._reports = []
        self._begun = time.monotonic()
        self._write(test=nodeid, outcome="begun")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._reports.append(report)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        outcomes = [report.outcome for report in self._reports]
        outcome = next((each for each in outcomes if each != "passed"), "passed")
        text = "\n".join(_last_lines(report) for report in self._reports if report.outcome == "failed")
        self._write(test=nodeid, outcome=outcome, text=text, seconds=time.monotonic() - self._begun)
        self._ended += 1
        if len({self._outcome_of(worker, outcome) for worker in range(self._workers)}) > 1:
            pytest.exit("the workers differ", returncode=0)

    def _outcome_of(self, worker: int, outcome: str) -> str:
        """Return the outcome of a worker's test, when it has ended.

        If the own test has failed, the other worker may wait for this one: the job ends after a moment.
        """
        moment = time.monotonic() + (10 if outcome == "failed" else LONGEST)
        while time.monotonic() < moment:
            file = folder / f"{worker}.jsonl"
            # The other worker may not have begun.
            lines = file.read_text(encoding="utf-8").splitlines(keepends=True) if file.exists() else []
            ended = [
                line["outcome"]
                for line in (json.loads(each) for each in lines if each.endswith("\n"))
                if "seconds" in line and "::" in line["test"]
            ]
            if len(ended) >= self._ended:
                return str(ended[self._ended - 1])
            time.sleep(0.01)
        os._exit(1)

    def _write(self, **line: Any) -> None:
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()


def _last_lines(report: pytest.CollectReport | pytest.TestReport) -> str:
    return str(report.longrepr)[-2500:]


os.chdir(packages)
options = ("-q", "-c", os.devnull, "--rootdir", str(packages), "-p", "no:cacheprovider", "-p", "no:xdist")
chosen = set(tests)
files = dict.fromkeys(test.partition("::")[0] for test in tests)
code = pytest.main([*options, "-W", "ignore", *files], plugins=[LockStep()])
print("pytest:", code, flush=True)
# What failed is in the file.
sys.exit(0 if code in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, 0) else int(code))

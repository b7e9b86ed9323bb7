"""What holds for all tests; each folder's conftest.py has its fixtures and gives its tests their marker."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

# A shell that starts the tests in the background has them ignore Ctrl-C, and nohup or a session without a
# terminal has them ignore a hang-up; all that they start would, too.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

WAITING = ("tests/python/engines", "tests/python/jobs/", "tests/python/project/")
COMPUTING = ("tests/python/keras/",)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Let several processes of pytest share the tests by file, so that a file's fixtures are made once."""
    return ByFile(config, log)


class ByFile(LoadScopeScheduling):
    """The folder engines/ is one unit as well: its files share machines and clusters.

    Tests of jobs and of other machines wait more than they compute; those of keras/ compute. The first
    process takes the former as long as there are any, and the others the latter: with three processes the
    two processors of a small machine are never idle.
    """

    def _split_scope(self, nodeid: str) -> str:
        engines = "tests/python/engines"
        return engines if nodeid.startswith(f"{engines}/") else nodeid.partition("::")[0]

    def _assign_work_unit(self, node: WorkerController) -> None:
        folders = WAITING if node is self.nodes[0] else COMPUTING
        chosen = next((scope for scope in self.workqueue if scope.startswith(folders)), None)
        if chosen is not None:
            self.workqueue.move_to_end(chosen, last=False)
        super()._assign_work_unit(node)


@pytest.fixture(autouse=True, scope="session")
def _cache_of_r(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep the runs of R functions out of the user's cache, and all runs out of the user's list of runs."""
    os.environ["R_USER_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


_tests = itertools.count()


@pytest.fixture(autouse=True)
def _own_settings(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the secret of tasks that a test starts by hand from the user's settings, and from other tests."""
    settings = tmp_path_factory.getbasetemp() / "settings" / str(next(_tests))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(settings))


@pytest.fixture(autouse=True)
def _outside_of_a_cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("TF_CONFIG", raising=False)
    yield
    # Of a test that has called use_tf_config(): the fixtures of the next file would belong to its cluster.
    os.environ.pop("TF_CONFIG", None)


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TFMUSTER_RUN_DIR", str(tmp_path))
    monkeypatch.setenv(
        "TF_CONFIG", '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}}'
    )
    return tmp_path

"""What holds for all tests; each folder's conftest.py has its fixtures and gives its tests their marker."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

# A shell that starts the tests in the background has them ignore Ctrl-C, and all that they start would, too.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Let several processes of pytest share the tests by file, so that a file's fixtures are made once."""
    return ByFile(config, log)


class ByFile(LoadScopeScheduling):
    """The folder engines/ is one unit as well: its files share machines and clusters."""

    def _split_scope(self, nodeid: str) -> str:
        engines = "tests/python/engines"
        return engines if nodeid.startswith(f"{engines}/") else nodeid.partition("::")[0]


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

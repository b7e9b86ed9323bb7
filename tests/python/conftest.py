"""What holds for all tests; each folder's conftest.py has its fixtures and gives its tests their marker."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.forks import FRESH


@pytest.fixture(autouse=True, scope="session")
def _cache_of_r(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep the runs of R functions out of the user's cache, and all runs out of the user's list of runs."""
    os.environ["R_USER_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(autouse=True, scope="module")
def _fresh_file(request: pytest.FixtureRequest) -> Iterator[None]:
    yield from _started_by_themselves(request.node)


@pytest.fixture(autouse=True)
def _fresh_test(request: pytest.FixtureRequest) -> Iterator[None]:
    yield from _started_by_themselves(request.node)


def _started_by_themselves(marked: pytest.Item | pytest.Module) -> Iterator[None]:
    """Fork no program of what has the marker `fresh`."""
    with pytest.MonkeyPatch.context() as changed:
        if marked.get_closest_marker("fresh"):
            for name, value in FRESH.items():
                changed.setenv(name, value)
        yield


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

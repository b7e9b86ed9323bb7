"""What holds for all tests; each folder's conftest.py has its fixtures and gives its tests their marker."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

# A shell that starts the tests in the background has them ignore Ctrl-C, and all that they start would, too.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Two processes of pytest share the tests by file, so that a file's fixtures are made once.

    The folder engines/ is one unit: its files share machines and clusters.
    """
    here = Path(__file__).parent
    for item in items:
        parts = item.path.relative_to(here).parts
        item.add_marker(pytest.mark.xdist_group("engines" if parts[0] == "engines" else "/".join(parts)))


@pytest.fixture(autouse=True)
def _outside_of_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TF_CONFIG", raising=False)


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TFMUSTER_RUN_DIR", str(tmp_path))
    monkeypatch.setenv(
        "TF_CONFIG", '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}}'
    )
    return tmp_path

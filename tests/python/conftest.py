"""What holds for all tests; each folder's conftest.py has its fixtures and gives its tests their marker."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

# A shell that starts the tests in the background has them ignore Ctrl-C, and all that they start would, too.
signal.signal(signal.SIGINT, signal.default_int_handler)


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

"""Tests of jobs of real processes on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.digits import empty_home, server  # noqa: F401
from support.rendezvous_job import Job


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker(pytest.mark.cluster)


@pytest.fixture
def job() -> Iterator[Job]:
    started = Job()
    yield started
    started.end()


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for commands, the first on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder

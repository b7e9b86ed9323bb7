"""Tests of jobs on other machines, each folder with the engine that starts them there."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator

import pytest

from support.hosts import Network, built, why_not


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker(pytest.mark.cluster)


@pytest.fixture(scope="package")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    """Four machines, the same for all engines."""
    if reason := why_not():
        pytest.skip(reason)
    with built(tmp_path_factory.mktemp("hosts")) as network:
        yield network


@pytest.fixture
def network(machines: Network) -> Iterator[Network]:
    """The machines as they are without anybody's work, and with nothing left on them afterwards."""
    machines.repair()
    yield machines
    machines.end_launchers()
    machines.nothing_left(seconds=5)


@pytest.fixture(scope="session")
def tfmuster_in_r() -> None:
    """Skip where R has no tfmuster."""
    code = 'stopifnot(requireNamespace("tfmuster"))'
    if (
        shutil.which("Rscript") is None
        or subprocess.run(["Rscript", "-e", code], capture_output=True).returncode
    ):
        pytest.skip("no R with tfmuster")

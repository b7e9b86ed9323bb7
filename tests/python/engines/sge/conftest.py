"""Grid Engine on the machines, started once for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.hosts import Network
from support.sge_cluster import Sge, why_not


@pytest.fixture(scope="package")
def cluster(machines: Network) -> Iterator[Sge]:
    if reason := why_not():
        pytest.skip(reason)
    machines.repair()
    with Sge(machines).started() as sge:
        yield sge


@pytest.fixture
def sge(cluster: Sge) -> Iterator[Sge]:
    yield cluster
    cluster.empty()
    cluster.nothing_left(10)

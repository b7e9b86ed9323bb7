"""Slurm on the machines, started once for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.hosts import Network
from support.slurm_cluster import Slurm, why_not


@pytest.fixture(scope="package")
def cluster(machines: Network) -> Iterator[Slurm]:
    if reason := why_not():
        pytest.skip(reason)
    machines.repair()
    with Slurm(machines).started() as slurm:
        yield slurm


@pytest.fixture
def slurm(cluster: Slurm) -> Iterator[Slurm]:
    yield cluster
    cluster.empty()
    cluster.nothing_left()

"""Pods, on machines that are network namespaces."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.hosts import Network
from support.pods import Pods


@pytest.fixture
def pods(machines: Network) -> Iterator[Pods]:
    these = Pods(machines)
    yield these
    these.remove()
    machines.nothing_left(10)
    machines.repair()

"""Tests of jobs of real processes on this machine."""

from __future__ import annotations

from collections.abc import Iterator

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

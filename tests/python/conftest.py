"""Fixtures that several test files share."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from hosts import Network, built
from rendezvous_job import job  # noqa: F401

# A shell that starts the tests in the background has them ignore Ctrl-C, and all that they start would, too.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    with built(tmp_path_factory.mktemp("hosts")) as network:
        yield network


@pytest.fixture
def network(machines: Network) -> Iterator[Network]:
    machines.mend()
    yield machines
    machines.end_launchers()
    machines.nothing_left(seconds=5)

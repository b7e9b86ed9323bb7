"""Training with parameter servers on other machines."""

from __future__ import annotations

import pytest

from support.hosts import Network
from support.launching import states

pytestmark = pytest.mark.slow


def test_over_ssh(network: Network) -> None:
    words = ["train", "mnist", "--dataset", "synthetic", "--model", "softmax", "--updates", "sync"]
    words += ["--epochs", "2", "--steps-per-epoch", "10"]
    done = network.launch("-H", "node1,node2,node3,node4", "--ps", "1", "--", "tfmuster", *words, limit=110)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "synchronous updates by 3 workers; 1 ps" in done.stdout
    assert set(states(network.work).values()) == {("done", 0)}

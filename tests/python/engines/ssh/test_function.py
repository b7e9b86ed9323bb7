"""A Python function on other machines, which share no files with the session."""

from __future__ import annotations

import sys

import pytest

from support.hosts import Network
from support.launching import write

pytestmark = pytest.mark.timeout(120)


def test_on_other_machines_that_share_nothing(network: Network) -> None:
    write(
        network.work,
        "mine.py",
        "import os",
        "OFFSET = 40",
        "def call(x):",
        "    return os.uname().nodename, OFFSET + x",
    )
    program = write(
        network.work,
        "program.py",
        "import mine",
        "from tfmuster import launch",
        "if __name__ == '__main__':",
        "    values = launch(mine.call, 2, hosts='node1,node2', quiet=True)",
        "    print('got', *values.values())",
    )
    said = network.run_here(sys.executable, program)
    assert said.strip().endswith("got ('node1', 42) ('node2', 42)")

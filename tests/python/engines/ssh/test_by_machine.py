"""Several workers on each of two hosts: those of a host add up their gradients before they send anything."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from support.clock import in_time
from support.hosts import Network, lines_of, summary
from support.launching import environment, only_run, wait_until
from support.paths import PROGRAMS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

PROGRAM = PROGRAMS / "by_machine.py"


def trained(network: Network, folder: Path, hosts: str, **env: str) -> list[tuple[str, int, int]]:
    """A digest of the weights, the bytes of a step, and those of the weights, for each worker."""
    folder.mkdir()
    done = network.launch("-H", hosts, "--seed", 3, "--", PROGRAM, folder, limit=200, **env)
    assert done.returncode == 0, done.stdout + done.stderr
    found = []
    for rank in range(len(list(folder.iterdir()))):
        lines = lines_of(done, f"worker {rank}")
        digest, sent, size = next(line for line in reversed(lines) if not line.startswith("epoch")).split()
        found.append((digest, int(sent), int(size)))
    return found


@pytest.mark.parametrize("hosts", ["node1:2,node2:2", "node1:2,node2"])
def test_a_host_sends_as_much_as_one_worker(network: Network, tmp_path: Path, hosts: str) -> None:
    found = trained(network, tmp_path / "some", hosts)
    assert len({digest for digest, *_ in found}) == 1
    # Two hosts exchange the vector once. Buckets below 1 MB, logs and headers are sent by all workers.
    size = found[0][2]
    first = sum(sent for _, sent, _ in found[:2])
    assert size < first < 1.2 * size
    again = trained(network, tmp_path / "again", hosts)
    assert {digest for digest, *_ in again} == {found[0][0]}
    alone = tmp_path / "alone"
    alone.mkdir()
    command = [sys.executable, str(PROGRAM), str(alone)]
    subprocess.run(command, env=environment(TFMUSTER_SEED="3"), cwd=tmp_path, check=True, timeout=100)
    with np.load(alone / "weights-0.npz") as one, np.load(tmp_path / "some" / "weights-0.npz") as several:
        assert len(one.files) == 6
        for name in one.files:
            np.testing.assert_allclose(several[name], one[name], atol=2e-5)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("killed", "worker 3 on node2 was ended by SIGKILL."),
        ("frozen", "worker 3 on node2 is frozen (process N is stopped by a signal)."),
    ],
)
def test_a_worker_of_another_host_that_ends_is_named(
    network: Network, tmp_path: Path, how: str, said: str
) -> None:
    process = network.start("-H", "node1:2,node2:2", "--", PROGRAM, tmp_path, how)
    wait_until(lambda: list((network.work / "runs").glob("*/logs/worker-3.log")))
    log = only_run(network.work) / "logs" / "worker-3.log"
    wait_until(lambda: "ends" in log.read_text(), 90)
    begun = time.monotonic()
    out, err = process.communicate(timeout=60)
    assert in_time(begun, 10 if how == "killed" else 20)
    done = subprocess.CompletedProcess(process.args, process.returncode, out, err)
    assert done.returncode == 1
    assert said in re.sub(r"process \d+", "process N", summary(done))

"""Jobs on hosts that are lost, come back, or are discovered, in network namespaces."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from support.hosts import ALL, Network, put
from support.launching import tfmuster, wait_until
from support.paths import PROGRAMS
from tfmuster.runs.run import Run

pytestmark = pytest.mark.timeout(120)


def clear(network: Network, machines: Sequence[Path], *, lost: str) -> None:
    """Repair the network, end what was lost, and remove the files of `preempted.py`."""
    network.repair()
    network.drop_logins(lost)
    for machine in machines:
        for path in (*machine.glob("reached-*"), *machine.glob("fast")):
            path.unlink()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_job_goes_on_without_a_host_that_is_lost(network: Network, tmp_path: Path) -> None:
    """Three workers begin, and the first host is lost. Two continue, and the weights are those of one."""
    alone = tmp_path / "alone"
    alone.mkdir()
    program = PROGRAMS / "preempted.py"
    done = tfmuster("launch", "-n", 1, "--seed", 5, program, ".", "steps", 10**6, cwd=alone)
    assert done.returncode == 0, done.stderr
    options = ["--max-restarts", 2, "--min-workers", 2, "--rejoin-timeout", 2, "--start-timeout", 15]
    process = network.start(
        *("-H", "node1,node2,node3", "--seed", 5, "--run-dir", tmp_path / "run", *options),
        *("--", program, tmp_path, "steps", 8),
    )
    machines = [network.in_work(f"node{i + 1}") for i in range(3)]
    try:
        wait_until(lambda: all((m / f"reached-{i}").exists() for i, m in enumerate(machines)), 60)
        network.cut("node1")
        for machine in machines[1:]:
            (machine / "fast").touch()
        said, errors = process.communicate(timeout=150)
        assert process.returncode == 0, said + errors
        assert "tfmuster: node1 lost; the job continues with 2 of 3 workers\n" in errors
        assert "resumes after step" in said
        run = Run(tmp_path / "run")
        assert [len(each["worker"]) for each in run.info()["clusters"]] == [3, 2]
        assert set(run.status()["tasks"]) == {"worker 0", "worker 1"}
        with np.load(tmp_path / "final-0.npz") as two, np.load(alone / "final-0.npz") as one:
            for name in one.files:
                np.testing.assert_allclose(two[name], one[name], atol=1e-5, err_msg=name)
    finally:
        clear(network, machines, lost="node1")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_host_that_is_discovered_joins_a_job_that_runs(network: Network, tmp_path: Path) -> None:
    """A third host comes, and the first is lost later. The weights are those of one worker."""
    alone = tmp_path / "alone"
    alone.mkdir()
    program = PROGRAMS / "preempted.py"
    done = tfmuster("launch", "-n", 1, "--seed", 5, program, ".", "steps", 10**6, cwd=alone)
    assert done.returncode == 0, done.stderr
    listed = tmp_path / "hosts.txt"
    listed.write_text("node1:1\nnode2:1\n")
    options = ["--max-restarts", 1, "--min-workers", 2, "--rejoin-timeout", 2, "--start-timeout", 15]
    process = network.start(
        *("--hosts-from", f"cat {listed}", "-n", 3, "--grow", 1, "--seed", 5, *options),
        *("--run-dir", tmp_path / "run", "--", program, tmp_path, "steps", 8),
    )
    run = Run(tmp_path / "run")
    machines = [network.in_work(f"node{i + 1}") for i in range(3)]
    try:
        wait_until(lambda: all((m / f"reached-{i}").exists() for i, m in enumerate(machines[:2])), 60)
        # There is no such machine, so nothing happens.
        listed.write_text("node1:1\nnode2:1\nnode9:1\n")
        time.sleep(3)
        assert "clusters" not in run.info() and run.status()["state"] == "running"
        listed.write_text("node1:1\nnode2:1\nnode3:1\n")
        wait_until(lambda: (machines[2] / "reached-2").exists() or process.poll() is not None, 90)
        assert process.poll() is None, process.communicate()
        listed.write_text("node3:1\nnode2:1\n")
        network.cut("node1")
        for machine in machines[1:]:
            (machine / "fast").touch()
        said, errors = process.communicate(timeout=150)
        assert process.returncode == 0, said + errors
        assert "tfmuster: node3 can take part; the workers write a checkpoint and start again\n" in errors
        assert "the job continues with 3 of 3 workers, on node1, node2, node3\n" in errors
        assert "the job continues with 2 of 3 workers, on node3, node2\n" in errors
        assert said.count("resumes after step") >= 2
        clusters = [[address.split(":")[0] for address in each["worker"]] for each in run.info()["clusters"]]
        assert clusters == [["node1", "node2"], ["node1", "node2", "node3"], ["node3", "node2"]]
        with np.load(tmp_path / "final-0.npz") as two, np.load(alone / "final-0.npz") as one:
            for name in one.files:
                np.testing.assert_allclose(two[name], one[name], atol=1e-5, err_msg=name)
    finally:
        clear(network, machines, lost="node1")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_host_that_flaps_joins_whenever_it_is_back(network: Network, tmp_path: Path) -> None:
    """It is left out at a restart, and the job need not fail again to have it back."""
    options = ["--max-restarts", 2, "--min-workers", 1, "--rejoin-timeout", 0, "--start-timeout", 15]
    process = network.start(
        *("-H", "node1,node2", "--grow", 1, "--seed", 5, "--run-dir", tmp_path / "run", *options),
        *("--", PROGRAMS / "preempted.py", tmp_path, "steps", 8),
    )
    run = Run(tmp_path / "run")
    machines = [network.in_work(f"node{i + 1}") for i in range(2)]

    def attempts() -> int:
        return len(run.info().get("clusters", [1])) if process.poll() is None else 99

    def wait_for(count: int) -> None:
        """Wait until so many attempts have begun, and the last one trains."""
        wait_until(lambda: attempts() >= count, 60)
        wait_until(lambda: (machines[count % 2]).joinpath(f"reached-{count % 2}").exists(), 60)

    try:
        wait_for(1)
        for attempt in (1, 3):
            network.cut("node2")
            (machines[0] / "reached-0").unlink()
            (machines[1] / "reached-1").unlink()
            wait_for(attempt + 1)
            network.repair()
            network.drop_logins("node2")
            if attempt == 1:
                wait_for(3)
        wait_for(5)
        for machine in machines:
            (machine / "fast").touch()
        said, errors = process.communicate(timeout=100)
        assert process.returncode == 0, said + errors
        assert [len(each["worker"]) for each in run.info()["clusters"]] == [2, 1, 2, 1, 2]
        assert errors.count("node2 lost; the job continues with 1 of 2 workers") == 2
        assert errors.count("node2 can take part") == 2
    finally:
        clear(network, machines, lost="node2")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_two_of_four_hosts_are_lost_at_once(network: Network, tmp_path: Path) -> None:
    options = ["--max-restarts", 1, "--min-workers", 2, "--rejoin-timeout", 1, "--start-timeout", 20]
    process = network.start(
        *("-H", ALL, "--seed", 5, "--run-dir", tmp_path / "run", *options),
        *("--", PROGRAMS / "preempted.py", tmp_path, "steps", 4),
    )
    run = Run(tmp_path / "run")
    machines = [network.in_work(f"node{i + 1}") for i in range(4)]
    try:
        wait_until(lambda: all((m / f"reached-{i}").exists() for i, m in enumerate(machines)), 100)
        network.cut("node1")
        network.cut("node3")
        for machine in machines:
            (machine / "fast").touch()
        said, errors = process.communicate(timeout=150)
        assert process.returncode == 0, said + errors
        assert "tfmuster: node1, node3 lost; the job continues with 2 of 4 workers\n" in errors
        left = [address.split(":")[0] for address in run.info()["clusters"][1]["worker"]]
        assert left == ["node2", "node4"]
    finally:
        clear(network, machines, lost="node1")
        network.drop_logins("node3")


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("echo no permission >&2; exit 3", "exit code 3: no permission"),
        ("echo '<html>'", "line 1: '<html>' is not a host name"),
        ("echo node1:1; echo node1:2", "line 2: 'node1' is named twice"),
        ("echo node1:many", "line 1: 'many' is not a number of slots"),
        ("true", "2 tasks, 0 slots"),
    ],
)
def test_what_a_discovery_command_may_not_print(network: Network, command: str, found: str) -> None:
    put(network, "t.py", "")
    done = network.launch("--hosts-from", command, "-n", 2, "t.py")
    assert (done.returncode, found in done.stderr) == (2, True), done.stderr


def test_hosts_and_a_command_for_them_are_refused(network: Network) -> None:
    put(network, "t.py", "")
    done = network.launch("-H", "node1", "--hosts-from", "echo node2", "t.py")
    assert (done.returncode, "found: both" in done.stderr) == (2, True), done.stderr


def test_too_few_hosts_are_named(network: Network, tmp_path: Path) -> None:
    put(network, "t.py", "import os, time\nprint('here', flush=True)\ntime.sleep(60)\n")
    options = ["--max-restarts", 2, "--min-workers", 2, "--rejoin-timeout", 0, "--start-timeout", 12]
    process = network.start("-H", "node1,node2", "--run-dir", tmp_path / "run", *options, "t.py")
    logs = tmp_path / "run" / "logs"
    wait_until(lambda: sum("here" in log.read_text() for log in logs.glob("*.log")) == 2)
    try:
        network.cut("node2")
        _, errors = process.communicate(timeout=90)
    finally:
        network.repair()
        network.drop_logins("node2")
    assert process.returncode == 2, errors
    assert "Too few workers are left.\n  found: 1 of 2; 2 are needed (min_workers); lost: node2" in errors


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (("--min-workers", 3, "--max-restarts", 1), "min_workers=3 and 2 workers"),
        (("--min-workers", 0, "--max-restarts", 1), "min_workers=0 and 2 workers"),
        (("--min-workers", 1), "min_workers=1 without max_restarts"),
        (("--grow", 5, "--max-restarts", 1), "grow without min_workers"),
        (("--min-workers", 1, "--max-restarts", 1, "--evaluator", "-n", 1), "min_workers with a chief"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(
    network: Network, options: tuple[object, ...], found: str
) -> None:
    put(network, "t.py", "")
    done = network.launch("-H", "node1,node2", *options, "t.py")
    assert (done.returncode, found in done.stderr) == (2, True), done.stderr

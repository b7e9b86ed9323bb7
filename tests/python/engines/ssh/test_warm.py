"""Spare processes on hosts: a restart has connections and workers that have waited for it."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from support.clock import in_time
from support.hosts import Network
from support.launching import read_json, wait_until
from support.paths import PROGRAMS
from support.spares import OF_A_JOB, spares_of
from support.training import Training
from tfmuster.launcher.remote.proxy_process import AgentPlace, ProxyProcess, SpareAgents

pytestmark = [pytest.mark.fresh, pytest.mark.slow, pytest.mark.timeout(240)]
#: Variables that differ between any two jobs on other machines.
OF_A_REMOTE_JOB = {*OF_A_JOB, "SSH_CLIENT", "SSH_CONNECTION"}
#: How long a slow step takes. The 32 of them have to outlast the imports of two spare processes.
SECONDS = 2


def spares_on(network: Network, host: str) -> list[psutil.Process]:
    """The processes that wait on a host."""
    numbers = [int(line.split(":")[0]) for line in network.machines[host].processes()]
    found = []
    for number in numbers:
        with contextlib.suppress(psutil.NoSuchProcess):  # it may have ended since it was listed
            found.append(psutil.Process(number))
    return spares_of(found)


def wait_for_spares(network: Network, *hosts: str) -> None:
    """Wait until one waits on each host."""
    wait_until(lambda: all(len(spares_on(network, host)) == 1 for host in hosts), 60)


def train(network: Network, *options: object) -> dict[str, Any]:
    """Launch a program with one failure. Return what the second worker's second attempt sees."""
    begun = network.start(
        *(
            "-H",
            "node1,node2",
            "--max-restarts",
            1,
            "--seed",
            3,
            "--copy",
            "--all-output",
            *options,
            "again.py",
        ),
        network.in_work("node2") / "now",
    )
    if "--warm" in options:
        wait_for_spares(network, "node1", "node2")
    (network.in_work("node2") / "now").touch()
    said, errors = begun.communicate(timeout=100)
    assert begun.returncode == 0, said + errors
    assert "restart 1 of 1" in errors
    (network.in_work("node2") / "now").unlink()
    (line,) = re.findall(r"^worker 1 \| sees (.*)$", said, re.MULTILINE)
    return read_json(Path(line))


def test_a_restart_continues_in_spare_processes_and_nothing_else_differs(
    network: Network, tmp_path: Path
) -> None:
    text = (PROGRAMS / "starting_again.py").read_text()
    text += f"if (attempt, index) == (1, 1):\n    path = {str(tmp_path)!r} + f'/{{time.time()}}.json'\n"
    text += "    Path(path).write_text(json.dumps(sees))\n    print('sees', path, flush=True)\n"
    (network.work / "again.py").write_text(text)
    cold, warm = train(network), train(network, "--warm")
    assert warm.pop("imported") and not cold.pop("imported")
    for sees in (cold, warm):
        # Agents have folders of their own.
        folder = sees["folder"]
        assert sees["file"].startswith(folder)
        for name in ("file", "argv", "path", "folder"):
            sees[name] = str(sees[name]).replace(folder, "FOLDER")
        sees["environment"] = {
            name: value.replace(folder, "FOLDER")
            for name, value in sees["environment"].items()
            if name not in OF_A_REMOTE_JOB
        }
    for name, value in cold.items():
        assert warm[name] == value, name


def test_those_of_lost_hosts_are_not_missed(network: Network, tmp_path: Path) -> None:
    """The host of the chief is lost; the others continue in the processes that have waited there."""
    options = ("--max-restarts", 1, "--min-workers", 2, "--rejoin-timeout", 1, "--warm")
    hosts = ("-H", "node1,node2,node3", "--all-output")
    training = Training(network, tmp_path, 3, *hosts, *options, seconds=SECONDS, shared=False)
    try:
        training.wait_for("node1", "node2", "node3")
        wait_for_spares(network, "node1", "node2", "node3")
        network.cut("node1")
        for machine in training.machines:
            (machine / "fast").touch()
        said, errors = training.process.communicate(timeout=100)
        assert training.process.returncode == 0, said + errors
        assert "tfmuster: node1 lost; the job continues with 2 of 3 workers\n" in errors
        assert training.clusters[1:] == [["node2", "node3"]]
        for worker in ("worker 0", "worker 1"):
            begins = [
                line for line in said.splitlines() if line.startswith(worker) and "TensorFlow was" in line
            ]
            assert [line.rpartition(" was ")[2] for line in begins] == ["not imported", "imported"]
        assert "resumes after step" in said
    finally:
        training.clear("node1")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_spare_processes_end_with_their_launcher(
    network: Network, tmp_path: Path, how: signal.Signals
) -> None:
    options = ("-H", "node1,node2", "--max-restarts", 1, "--warm")
    training = Training(network, tmp_path, 2, *options, seconds=SECONDS)
    try:
        training.wait_for("node1", "node2")
        wait_for_spares(network, "node1", "node2")
        training.process.send_signal(how)
        training.process.communicate(timeout=30)
        network.nothing_left(15)
    finally:
        training.clear()


def test_a_spare_process_that_has_ended_is_not_missed(network: Network, tmp_path: Path) -> None:
    """Nor one whose agent has, or whose connection: that host is connected again."""
    options = ("-H", "node1,node2", "--max-restarts", 2, "--warm")
    training = Training(network, tmp_path, 2, *options, seconds=SECONDS, shared=False)
    try:
        training.wait_for("node1", "node2")
        wait_for_spares(network, "node1", "node2")
        # The process on one host, and the agent on the other.
        spares_on(network, "node1")[0].kill()
        agent = spares_on(network, "node2")[0].parent()
        assert agent is not None
        agent.kill()
        wait_until(lambda: not spares_on(network, "node1") and not spares_on(network, "node2"), 10)
        pid = training.run.status()["tasks"]["worker 1"]["pid"]
        subprocess.run([*network.inside("node2"), "kill", "-9", str(pid)], check=True)
        for machine in training.machines:
            (machine / "fast").touch()
        said, errors = training.process.communicate(timeout=100)
        assert training.process.returncode == 0, said + errors
        assert "worker 1 on node2 was ended by SIGKILL; restart 1 of 2\n" in errors
    finally:
        training.clear()


def test_one_that_nobody_answers_is_not_waited_for() -> None:
    """Its host may have been cut off while it connected."""
    place = AgentPlace("worker", "node1", {"ssh": ["sleep", "60"], "host": "node1"})
    given = {"seconds": 60, "ask": {"names": {}}, "script": None}
    with SpareAgents() as spares:
        spares.give_back([remote := ProxyProcess.asked("0" * 32, place, given, [])])
        wait_until(lambda: bool(psutil.Process(remote.process.pid).children()), 20)
        begun = time.monotonic()
        spares.check()
        assert in_time(begun, 4)
        assert remote.process.returncode is not None
        assert spares.take_for({**place.link, **given}) is None

"""TensorFlow's port lets in the workers of its job, and nobody else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.launching import (
    TFMUSTER,
    environment,
    nothing_left,
    start_tfmuster,
    tfmuster,
    wait_until,
    write,
)
from support.paths import PROGRAMS
from support.spaces import machines
from tfmuster.rendezvous.task.port_guard import guarding_works

pytestmark = [
    pytest.mark.fresh,
    pytest.mark.slow,
    pytest.mark.timeout(150),
    pytest.mark.skipif(guarding_works() is not None, reason=f"{guarding_works()}"),
]

#: A user that no process of this machine has.
STRANGER = 64123
#: How connections are kept out, by a filter in the kernel, or where TensorFlow accepts them, and the door.
WAYS = {"filter": "Door", "gate": "GatedDoor"}
as_another_user = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")


@pytest.fixture(autouse=True)
def _clean(tmp_path: Path) -> Iterator[None]:
    yield
    nothing_left(tmp_path, 3)


def attack(folder: Path, file: str, seconds: float, *prefix: str) -> subprocess.Popen[str]:
    command = [
        *prefix,
        sys.executable,
        str(PROGRAMS / "strangers_session.py"),
        str(STRANGER),
        file,
        str(seconds),
    ]
    return subprocess.Popen(
        command, cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )


def result_of(stranger: subprocess.Popen[str], limit: float = 60) -> str:
    end = time.monotonic() + limit
    while stranger.poll() is None and time.monotonic() < end:
        time.sleep(0.1)
    if stranger.poll() is None:
        stranger.kill()
        stranger.communicate(timeout=limit)
        return "nothing"  # TensorFlow waits for an answer without a limit
    return stranger.communicate(timeout=limit)[0].split()[-1]


def attacked(folder: Path, *arguments: str, **env: str) -> tuple[list[str], str]:
    """Attack a job from before its start, and when it trains; return what was got, and the job's output."""
    strangers = [attack(folder, "starting", 8), attack(folder, "closed", 4)]
    wait_until(lambda: len(list(folder.glob("ready.*"))) == 2, 60)
    job = start_tfmuster(
        "launch", "--all-output", "-n", "2", PROGRAMS / "visited.py", *arguments, cwd=folder, **env
    )
    try:
        got = [result_of(stranger) for stranger in strangers]
        (folder / "enough").touch()
        output = job.communicate(timeout=60)[0]
    finally:
        for process in [*strangers, job]:
            process.kill()
            process.communicate()
    assert job.returncode == 0, output
    return got, output


@as_another_user
@pytest.mark.parametrize("way", WAYS)
def test_another_user_of_this_machine_gets_nothing(tmp_path: Path, way: str) -> None:
    """And a connection between workers that breaks later, as after an idle phase, is made anew."""
    got, output = attacked(tmp_path, "break", way)
    assert got == ["nothing", "nothing"]
    assert f"came from user {STRANGER} of this machine" in output
    assert output.count("stages: ['closed']") == 2
    assert output.count(f"doors: ['{WAYS[way]}']") == 2
    assert "broken: 1" in output
    weights = [line.partition("weights:")[2] for line in output.splitlines() if "weights:" in line]
    assert len(weights) == 2 and weights[0] == weights[1]


@pytest.mark.skipif(not shutil.which("setpriv"), reason="needs setpriv, of util-linux")
def test_a_worker_without_capabilities_guards_its_port(tmp_path: Path) -> None:
    """Newer kernels let only CAP_NET_ADMIN attach a filter to a TCP socket."""
    lines = [
        "import tfmuster",
        "from tfmuster.rendezvous.task import port_guard",
        "tfmuster.strategy('multi_worker_mirrored')",
        "print('guarding:', port_guard._guards[0].door.guarding.wait(5))",
    ]
    write(tmp_path, "train.py", *lines)
    drop = ("setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin") if os.geteuid() == 0 else ()
    done = subprocess.run(
        [*drop, *TFMUSTER, "launch", "--all-output", "-n", "2", "train.py"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("guarding: True") == 2
    assert "port is open" not in done.stdout + done.stderr


@as_another_user
def test_by_an_open_port_another_user_gets_all(tmp_path: Path) -> None:
    got, output = attacked(tmp_path, TFMUSTER_OPEN_PORT="1")
    assert got == ["token", "token"]
    assert output.count("TensorFlow's port is open (TFMUSTER_OPEN_PORT is set)") == 1


@as_another_user
@pytest.mark.skipif(not shutil.which("ip"), reason="needs iproute2")
@pytest.mark.parametrize(("way", "open"), [*((way, "0") for way in WAYS), ("filter", "1")])
def test_a_stranger_on_another_machine_gets_nothing(tmp_path: Path, way: str, open: str) -> None:
    """Nor does another user of a worker's machine, when all workers are connected."""
    with machines(3) as hosts:
        cluster = {"worker": [f"{hosts[0].address}:2222", f"{hosts[1].address}:2223"]}
        strangers = [
            attack(tmp_path, "starting", 8, *hosts[2].prefix),
            attack(tmp_path, "closed", 4, *hosts[1].prefix),
        ]
        workers: list[subprocess.Popen[str]] = []
        try:
            wait_until(lambda: len(list(tmp_path.glob("ready.*"))) == 2, 60)
            for index in range(2):
                tf_config = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})
                variables = {"TF_CONFIG": tf_config, "TFMUSTER_TOKEN": "0123456789abcdef"}
                workers.append(
                    subprocess.Popen(
                        [*hosts[index].prefix, sys.executable, str(PROGRAMS / "visited.py"), "break", way],
                        cwd=tmp_path,
                        env=environment(**variables, TFMUSTER_OPEN_PORT=open),
                        stdout=subprocess.PIPE,
                        stderr=subprocess.STDOUT,
                        text=True,
                    )
                )
            got = [result_of(stranger) for stranger in strangers]
            (tmp_path / "enough").touch()
            outputs = [worker.communicate(timeout=60)[0] for worker in workers]
        finally:
            for process in [*strangers, *workers]:
                process.kill()
                process.communicate()
    assert [worker.returncode for worker in workers] == [0, 0], "\n".join(outputs)
    assert got == (["nothing", "nothing"] if open == "0" else ["token", "token"])
    if open == "0":
        assert all("stages: ['closed']" in output for output in outputs), outputs
    assert "broken: 1" in "".join(outputs)


@pytest.mark.parametrize("coordinator", [("--chief",), ()])
def test_a_coordinator_reaches_servers_whose_doors_are_closed_after_a_pause(
    tmp_path: Path, coordinator: tuple[str, ...]
) -> None:
    """A network or gRPC has closed the connections that were idle."""
    done = tfmuster("launch", "--ps", 1, "-n", 2, *coordinator, PROGRAMS / "idle_servers.py", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert 'broken: {"worker": 1, "ps": 1}' in done.stdout
    assert "learned: True" in done.stdout


@pytest.mark.parametrize("way", WAYS)
def test_tensorflow_starts_when_the_chief_listens(tmp_path: Path, way: str) -> None:
    # It would find the port closed, and try again after a second.
    done = tfmuster("launch", "--all-output", "-n", 3, PROGRAMS / "late_chief.py", way, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("the chief listens: True") == 2 and "the chief listens: False" not in done.stdout


def test_an_open_port_makes_nobody_wait(tmp_path: Path) -> None:
    done = tfmuster("launch", "-n", 2, PROGRAMS / "late_chief.py", cwd=tmp_path, TFMUSTER_OPEN_PORT="1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the chief listens: False" in done.stdout

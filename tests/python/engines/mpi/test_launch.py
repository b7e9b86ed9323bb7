"""``tfmuster launch --backend mpi`` with the MPIs of Debian, on this machine and between machines."""

from __future__ import annotations

import json
import re
import signal
import sys
import time
from pathlib import Path

import psutil
import pytest

from support.clock import in_time
from support.hosts import ECHO, Network, lines_of, put
from support.launching import nothing_left, only_run, read_json, start_tfmuster, tfmuster, wait_until, write
from support.mpi import FLAVOURS, command_lines, needs_open_mpi
from support.paths import PROGRAMS

TELL_SECRET = ("import os, time", "time.sleep(1)", "print(os.environ['TFMUSTER_TOKEN'])")
LOCAL = ("launch", "--backend", "mpi", "-H")


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_on_this_machine(tmp_path: Path, flavour: str) -> None:
    write(tmp_path, "train.py", ECHO)
    done = tfmuster(*LOCAL, "localhost:3", "train.py", "a b", cwd=tmp_path, TFMUSTER_MPIRUN=flavour)
    assert done.returncode == 0, done.stderr
    for index in range(3):
        (line,) = lines_of(done, f"worker {index}")
        _, folder, arguments, told = json.loads(line)
        assert (Path(folder), arguments[1:]) == (tmp_path, ["a b"])
        assert told["task"] == {"type": "worker", "index": index}
    assert read_json(only_run(tmp_path) / "status.json")["state"] == "done"
    nothing_left(tmp_path)


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_the_secret_is_on_no_command_line(tmp_path: Path, flavour: str) -> None:
    write(tmp_path, "train.py", *TELL_SECRET)
    with command_lines() as words:
        done = tfmuster(*LOCAL, "localhost:2", "train.py", cwd=tmp_path, TFMUSTER_MPIRUN=flavour)
    assert done.returncode == 0, done.stderr
    check_secret(lines_of(done, "worker 0")[-1], words)


@needs_open_mpi
def test_the_secret_is_on_no_command_line_of_several_machines(network: Network) -> None:
    write(network.work, "train.py", *TELL_SECRET)
    with command_lines() as words:
        done = network.launch("--backend", "mpi", "-H", "node1:1,node2:1", "--copy", "train.py")
    assert done.returncode == 0, done.stderr
    # Open MPI starts its daemons by ssh.
    assert any("orted" in word for word in words)
    check_secret(lines_of(done, "worker 0")[-1], words)


def check_secret(secret: str, words: set[str]) -> None:
    assert len(secret) >= 32
    assert any("call_home" in word for word in words)
    assert not [word for word in words if secret in word]


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_a_failure_is_named_and_ends_all(tmp_path: Path, flavour: str) -> None:
    lines = ("import json, os, time", "task = json.loads(os.environ['TF_CONFIG'])['task']")
    lines += ("if task['index'] == 1: raise ValueError('no such column')", "time.sleep(99)")
    write(tmp_path, "train.py", *lines)
    begun = time.monotonic()
    done = tfmuster(*LOCAL, "localhost:3", "train.py", cwd=tmp_path, TFMUSTER_MPIRUN=flavour)
    assert done.returncode == 1
    assert "worker 1 on" in done.stderr
    assert "failed with exit code 1: ValueError: no such column" in done.stderr
    assert in_time(begun, 20)
    nothing_left(tmp_path, seconds=5)


@needs_open_mpi
@pytest.mark.parametrize(
    ("options", "found"),
    [
        (("-H", "localhost:2", "-n", 3), "3 tasks; it says: There are not enough slots available"),
        (("-H", "no-such-host:2"), "ssh: "),
        (("-n", 2, "--backend-option=--no-such-option"), "Error: unknown option"),
        (("-H", "localhost:2", "--remote-python", "/nope"), "/nope"),
    ],
)
def test_what_can_not_be_started(tmp_path: Path, options: tuple[object, ...], found: str) -> None:
    write(tmp_path, "train.py", "")
    arguments = ("launch", "--backend", "mpi", *options, "train.py")
    done = tfmuster(*arguments, cwd=tmp_path, TFMUSTER_MPIRUN="mpirun.openmpi")
    assert done.returncode == 2
    assert found in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "runs").exists()
    nothing_left(tmp_path, seconds=5)


def test_what_hydra_says_of_a_host_that_it_waits_for(tmp_path: Path) -> None:
    write(tmp_path, "train.py", "")
    arguments = (*LOCAL, "no-such-host:2", "--start-timeout", 3, "train.py")
    done = tfmuster(*arguments, cwd=tmp_path, TFMUSTER_MPIRUN="mpirun.mpich")
    assert done.returncode == 2
    assert "ssh: " in done.stderr
    nothing_left(tmp_path, seconds=5)


def test_without_mpi(tmp_path: Path) -> None:
    write(tmp_path, "train.py", "")
    done = tfmuster(*LOCAL, "localhost", "train.py", cwd=tmp_path, TFMUSTER_MPIRUN="mpirun.none")
    assert done.returncode == 2
    assert "no mpirun.none on PATH" in done.stderr


@needs_open_mpi
@pytest.mark.parametrize("whom", ["mpirun", "launcher"])
def test_nothing_is_left_of_a_job_that_is_killed(tmp_path: Path, whom: str) -> None:
    write(tmp_path, "train.py", "import time", "print('begun', flush=True)", "time.sleep(99)")
    process = start_tfmuster(*LOCAL, "localhost:2", "--quiet", "train.py", cwd=tmp_path)
    log = "logs/worker-1.log"
    wait_until(lambda: [path for path in tmp_path.glob(f"runs/*/{log}") if path.read_text()])
    if whom == "launcher":
        process.kill()
    else:
        children = psutil.Process(process.pid).children()
        (mpirun,) = (child for child in children if "mpirun" in child.cmdline()[0])
        mpirun.send_signal(signal.SIGKILL)
    said, _ = process.communicate(timeout=30)
    if whom == "mpirun":
        assert process.returncode == 1, said
        assert "was lost" in said or "was ended by SIGTERM" in said
    nothing_left(tmp_path, seconds=12)


@needs_open_mpi
def test_workers_on_several_machines_train(network: Network) -> None:
    # The program of docs/coming-from/horovod.md.
    put(network, "from_horovod.py", (PROGRAMS / "from_horovod.py").read_text())
    options = ("--backend", "mpi", "-H", "node1:2,node2:1", "-np", 3)
    # TensorFlow imports what it has written to the temporary folder, which is to be left empty.
    program = ("env", "PYTHONDONTWRITEBYTECODE=1", sys.executable, "from_horovod.py", network.folder)
    done = network.launch(*options, "--", *program, limit=120)
    assert done.returncode == 0, done.stderr
    assert "3 tasks on node1, node2" in done.stderr
    weights = {line for index in range(3) for line in lines_of(done, f"worker {index}") if "weights" in line}
    (weight,) = weights
    assert weight.startswith("size 3")
    # Only the chief writes.
    assert len(list(network.folder.glob("checkpoint-*.keras"))) == 2


@needs_open_mpi
def test_a_host_without_the_script_is_named(network: Network) -> None:
    put(network, "train.py", "", on=["node1"])
    done = network.launch("--backend", "mpi", "-H", "node1:1,node2:1", "train.py")
    assert done.returncode == 2
    assert re.search("node2: no file train.py", done.stderr)

"""A job of LSF by its variables, on the machines of :mod:`hosts`, with ssh in the place of ``blaunch``.

Both run a line of shell on a host and pass on the standard input, which has the job's secret.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from support.hosts import Network, lines_of, put, why_not
from support.launching import environment, read_json

WHY_NOT = why_not()
pytestmark = [pytest.mark.timeout(60), pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))]
TELL = """
import json, os
told = json.loads(os.environ["TF_CONFIG"])
print(json.dumps([os.uname().nodename, told["task"]["index"], told["cluster"]["worker"]]), flush=True)
"""
JOB = {"LSB_JOBID": "4711", "LSB_JOBINDEX": "0", "LSB_MCPU_HOSTS": "here 1 node2 2 node1 1 "}


@pytest.fixture
def commands(network: Network, tmp_path: Path) -> dict[str, str]:
    """The variables of a job that finds ``blaunch``."""
    blaunch = tmp_path / "blaunch"
    blaunch.write_text(f'#!/bin/sh\nexec ssh -F {network.config} "$@"\n')
    blaunch.chmod(0o755)
    return {**JOB, "PATH": f"{tmp_path}:{environment()['PATH']}"}


def test_there_is_a_worker_on_each_slot(network: Network, commands: dict[str, str]) -> None:
    put(network, "tell.py", TELL)
    (network.work / "tell.py").write_text(TELL)
    done = network.launch("--backend", "lsf", "tell.py", **commands)
    assert done.returncode == 0, done.stderr
    places = [json.loads(lines_of(done, f"worker {index}")[0]) for index in range(4)]
    assert [place[1] for place in places] == [0, 1, 2, 3]
    assert [place[0] for place in places[1:]] == ["node2", "node2", "node1"]
    assert len({tuple(place[2]) for place in places}) == 1
    (run,) = (network.work / "runs").iterdir()
    assert read_json(run / "run.json")["lsf_job"] == "4711"
    assert read_json(run / "stop.json")["command"] == ["bkill", "4711"]


def test_more_tasks_than_slots_are_refused(network: Network, commands: dict[str, str]) -> None:
    done = network.launch("--backend", "lsf", "-n", 5, "--", "true", **commands)
    assert done.returncode == 2
    assert "found: 5 tasks, and 4 slots on here, node2, node1" in done.stderr


def test_a_host_on_which_nothing_can_be_started_is_named(network: Network, commands: dict[str, str]) -> None:
    commands["LSB_MCPU_HOSTS"] = "here 1 node9 1"
    done = network.launch("--backend", "lsf", "--start-timeout", 8, "--", "true", **commands)
    assert done.returncode == 2, done.stderr
    assert re.search(r"LSF must start 2 processes\.\n +found: .*node9|10\.78\.0\.9", done.stderr), done.stderr


def test_a_failure_ends_the_others(network: Network, commands: dict[str, str]) -> None:
    program = (
        TELL
        + "import time\nif told['task']['index'] == 3: raise ValueError('no such column')\ntime.sleep(99)\n"
    )
    put(network, "train.py", program)
    (network.work / "train.py").write_text(program)
    done = network.launch("--backend", "lsf", "train.py", **commands)
    assert done.returncode == 1
    assert "worker 3 on node1 failed with exit code 1: ValueError: no such column" in done.stderr

"""PBS's commands as Debian's slurm-wlm-torque has them: jobs are submitted, fail, and are ended."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator

import pytest

from support.hosts import Network, lines_of
from support.hosts import why_not as no_hosts
from support.launching import TFMUSTER, only_run, read_json, wait_until, write
from support.pbs_cluster import Pbs, started
from support.pbs_cluster import why_not as no_pbs
from support.slurm_cluster import why_not as no_slurm
from tfmuster.tracking.run import Run

WHY_NOT = no_hosts() or no_slurm() or no_pbs()
pytestmark = [pytest.mark.timeout(200), pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))]
LAUNCH = (*TFMUSTER, "launch", "--backend", "pbs")
TELL = (
    "import json, os, sys",
    "told = json.loads(os.environ['TF_CONFIG'])",
    "rank = told['task']['index']",
    "sys.stdout.write(json.dumps([os.uname().nodename, rank]) + '\\n')",
    "sys.stdout.flush()",
)
WAITS = ("import time", "print('begun', flush=True)", "time.sleep(99)")


@pytest.fixture(scope="module")
def cluster(machines: Network) -> Iterator[Pbs]:
    machines.repair()
    with started(machines) as pbs:
        yield pbs


@pytest.fixture
def pbs(cluster: Pbs) -> Iterator[Pbs]:
    yield cluster
    cluster.slurm.empty()
    cluster.slurm.nothing_left(10)


def test_a_job_is_submitted_shown_and_kept(pbs: Pbs) -> None:
    slurm = pbs.slurm
    write(slurm.shared, "train.py", *TELL, "print('argument', sys.argv[1:], os.environ['COLOUR'])")
    program = ("train.py", "a b", "$(touch pwned)", "it's")
    done = slurm.run(*LAUNCH, "-n", 3, "--name", '1 "%j":,', *program, COLOUR="green", **pbs.variables)
    assert done.returncode == 0, done.stderr
    places = [json.loads(lines_of(done, f"worker {index}")[0]) for index in range(3)]
    assert [place[1] for place in places] == [0, 1, 2]
    assert len({place[0] for place in places}) == 3
    for index in range(3):
        assert lines_of(done, f"worker {index}")[1] == """argument ['a b', '$(touch pwned)', "it's"] green"""
    assert not list(slurm.shared.rglob("pwned"))
    run = only_run(slurm.shared)
    assert read_json(run / "status.json")["state"] == "done"
    assert (run / "logs" / "pbs.log").exists()


def test_options_of_qsub_ask_for_other_hosts(pbs: Pbs) -> None:
    slurm = pbs.slurm
    write(slurm.shared, "train.py", *TELL)
    option = "--backend-option=-l nodes=2:ppn=2"
    done = slurm.run(*LAUNCH, "-n", 4, option, "train.py", **pbs.variables)
    assert done.returncode == 0, done.stderr
    hosts = [json.loads(lines_of(done, f"worker {index}")[0])[0] for index in range(4)]
    # In the order of the list of hosts, on which Slurm puts as many as it likes.
    assert hosts == sorted(hosts, key=hosts.index)
    assert len(set(hosts)) == 2


def test_a_failure_is_named(pbs: Pbs) -> None:
    slurm = pbs.slurm
    write(slurm.shared, "train.py", *TELL, "import time", "if rank == 1: raise ValueError('no such column')")
    with (slurm.shared / "train.py").open("a") as script:
        script.write("time.sleep(99)\n")
    failed = slurm.run(*LAUNCH, "-n", 2, "train.py", **pbs.variables)
    assert failed.returncode == 1
    assert re.search(r"worker 1 on vn\d+ failed with exit code 1: ValueError: no such column", failed.stderr)


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (("nope.py",), "no file nope.py"),
        (("--backend-option=-q nosuch", "train.py"), "invalid partition specified: nosuch"),
        (("-H", "vn1", "train.py"), "PBS chooses the nodes"),
    ],
)
def test_what_can_not_be_started(pbs: Pbs, options: tuple[str, ...], found: str) -> None:
    slurm = pbs.slurm
    write(slurm.shared, "train.py", "")
    done = slurm.run(*LAUNCH, "-n", 2, *options, **pbs.variables)
    assert done.returncode == 2, done.stderr
    assert found in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(slurm.shared.glob("runs/*"))


@pytest.mark.parametrize("who", ["qdel", "launcher"])
def test_a_job_that_is_ended_leaves_nothing(pbs: Pbs, who: str) -> None:
    slurm = pbs.slurm
    write(slurm.shared, "train.py", *WAITS)
    process = slurm.popen(*LAUNCH, "-n", 3, "train.py", **pbs.variables)
    last = "runs/*/logs/worker-2.log"
    wait_until(lambda: [path for path in slurm.shared.glob(last) if path.read_text()], 40)
    (run,) = (path.parent for path in slurm.shared.glob("runs/*/run.json"))
    if who == "launcher":
        process.terminate()
    else:
        command = read_json(run / "stop.json")["command"]
        slurm.run(*command, **pbs.variables)
    _, err = process.communicate(timeout=60)
    assert process.returncode == (130 if who == "launcher" else 1), err
    assert who == "launcher" or re.search(r"job \d+ on node\d was ended by PBS: ", err), err
    # Where qdel leaves the launcher no time to end, the job has failed.
    states = ["interrupted"] if who == "launcher" else ["interrupted", "failed"]
    assert read_json(run / "status.json")["state"] in states
    slurm.nothing_left(seconds=15)


def test_a_run_that_waits_is_stopped(pbs: Pbs) -> None:
    slurm = pbs.slurm
    write(slurm.shared, "train.py", "print('trained')")
    options = "workers=2, on=tfmuster.Pbs(), wait=False"
    lines = ("import tfmuster", f"run = tfmuster.launch('train.py', {options})", "print(run.path)")
    write(slurm.shared, "session.py", *lines)
    full = slurm.popen("srun", "--exclusive", "-N", 4, "sleep", 99)
    wait_until(lambda: slurm.jobs() == ["sleep RUNNING"])
    run = Run(slurm.run(sys.executable, "session.py", **pbs.variables).stdout.strip())
    assert run.status()["state"] == "starting"
    stopped = slurm.run(*TFMUSTER, "runs", "stop", **pbs.variables)
    assert stopped.stdout == f"{run.name}: interrupted\n", stopped.stderr
    full.terminate()
    full.communicate(timeout=20)


def test_the_doctor_says_whether_it_answers(pbs: Pbs) -> None:
    done = pbs.slurm.run(*TFMUSTER, "doctor", "--no-devices", **pbs.variables)
    assert re.search(r"pbs: +yes: ", done.stdout), done.stdout

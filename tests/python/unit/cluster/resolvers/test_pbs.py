"""PBS's variables and host files, in the forms of OpenPBS and Torque, and what is made of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfmuster.cluster.resolvers import batch_job, engine_here, gpus_here, resolve_task
from tfmuster.errors import LaunchError


@pytest.fixture
def hosts(tmp_path: Path) -> Path:
    path = tmp_path / "12.head"
    path.write_text("node2\nnode2\nnode1\n\n")
    return path


def torque(hosts: Path, line: int, node: int, **more: str) -> dict[str, str]:
    """What a task that Torque's pbsdsh has started finds."""
    numbers = {"PBS_VNODENUM": str(line), "PBS_NODENUM": str(node), "PBS_TASKNUM": str(line + 2)}
    return {"PBS_JOBID": "12.head", "PBS_NODEFILE": str(hosts), **numbers, **more}


@pytest.mark.parametrize(
    ("line", "node", "address"), [(0, 0, "node2:5000"), (1, 0, "node2:5001"), (2, 1, "node1:5000")]
)
def test_torque_numbers_the_lines(hosts: Path, line: int, node: int, address: str) -> None:
    task = resolve_task(torque(hosts, line, node), base_port=5000)
    assert task is not None
    assert (task.name, task.address) == (f"worker {line}", address)
    assert engine_here(torque(hosts, line, node)) == "PBS"


def test_openpbs_numbers_the_hosts(hosts: Path) -> None:
    job = {"PBS_JOBID": "12.head", "PBS_NODEFILE": str(hosts), "PBS_TASKNUM": "536870915"}
    task = resolve_task({**job, "PBS_NODENUM": "1"}, base_port=5000)
    assert task is not None
    assert (task.name, task.address) == ("worker 2", "node1:5000")
    # Which of two tasks of a host this is, nothing says.
    with pytest.raises(LaunchError, match="Start the tasks with mpirun"):
        resolve_task({**job, "PBS_NODENUM": "0"})


def test_a_batch_script_is_no_task_and_yet_a_job(hosts: Path) -> None:
    script = {"PBS_JOBID": "12.head", "PBS_NODEFILE": str(hosts), "PBS_TASKNUM": "1", "PBS_NODENUM": "0"}
    assert resolve_task(script) is None
    job = batch_job(script)
    assert job is not None
    assert (job.system, job.number, job.stop) == ("pbs", "12.head", ("qdel", "12.head"))


@pytest.mark.parametrize("wrong", [{"PBS_VNODENUM": "3"}, {"PBS_VNODENUM": "x"}, {"PBS_NODEFILE": "/nope"}])
def test_what_makes_no_sense_is_refused(hosts: Path, wrong: dict[str, str]) -> None:
    with pytest.raises(LaunchError):
        resolve_task({**torque(hosts, 0, 0), **wrong})
    without = torque(hosts, 0, 0)
    del without["PBS_NODEFILE"]
    with pytest.raises(LaunchError, match="no PBS_NODEFILE"):
        resolve_task(without)


def test_tasks_of_a_host_share_its_gpus(hosts: Path) -> None:
    seen = [gpus_here(torque(hosts, line, 0, CUDA_VISIBLE_DEVICES="0,1")) for line in range(3)]
    assert seen == [{"CUDA_VISIBLE_DEVICES": "0"}, {"CUDA_VISIBLE_DEVICES": "1"}, {}]


def test_the_port_is_the_jobs_own(hosts: Path) -> None:
    jobs = [f"{number}.head" for number in range(100)]
    ports = {resolve_task(torque(hosts, 0, 0, PBS_JOBID=job)).address for job in jobs}  # type: ignore[union-attr]
    assert len(ports) == 100

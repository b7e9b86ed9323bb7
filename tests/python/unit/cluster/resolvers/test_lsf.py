"""LSF's variables and host file, in the forms of its reference, and what is made of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfmuster.cluster.resolvers import batch_job, engine_here, gpus_here, resolve_task
from tfmuster.errors import LaunchError

TASK = {"LSB_JOBID": "4711", "LSB_JOBINDEX": "0", "LSB_MCPU_HOSTS": "node2 2 node1 1 ", "LSF_PM_TASKID": "2"}


@pytest.mark.parametrize(
    ("number", "address"), [("1", "node2:5000"), ("2", "node2:5001"), ("3", "node1:5000")]
)
def test_slots_are_the_ranks(number: str, address: str) -> None:
    task = resolve_task({**TASK, "LSF_PM_TASKID": number}, base_port=5000)
    assert task is not None
    assert (task.name, task.address) == (f"worker {int(number) - 1}", address)
    assert engine_here(TASK) == "LSF"


def test_a_host_file_counts_first(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text("node9\nnode8\n")
    task = resolve_task({**TASK, "LSB_DJOB_HOSTFILE": str(path)}, base_port=5000)
    assert task is not None
    assert task.address == "node8:5000"
    # It is on the first host alone.
    path.unlink()
    elsewhere = resolve_task({**TASK, "LSB_DJOB_HOSTFILE": str(path)}, base_port=5000)
    assert elsewhere is not None
    assert elsewhere.address == "node2:5001"


def test_a_batch_script_is_no_task_and_yet_a_job() -> None:
    script = {name: value for name, value in TASK.items() if name != "LSF_PM_TASKID"}
    assert resolve_task(script) is None
    job = batch_job(script)
    assert job is not None
    assert (job.system, job.number, job.stop) == ("lsf", "4711", ("bkill", "4711"))
    array = batch_job({**script, "LSB_JOBINDEX": "3"})
    assert array is not None
    assert array.stop == ("bkill", "4711[3]")


@pytest.mark.parametrize(
    "wrong",
    [
        {"LSF_PM_TASKID": "4"},
        {"LSF_PM_TASKID": "0"},
        {"LSF_PM_TASKID": "x"},
        {"LSB_MCPU_HOSTS": "node2 2 node1"},
        {"LSB_MCPU_HOSTS": "node2 0"},
        {"LSB_MCPU_HOSTS": "node2 999999"},
    ],
)
def test_what_makes_no_sense_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(LaunchError) as refused:
        resolve_task({**TASK, **wrong})
    assert refused.value.fields["reason"] == "batch"


def test_tasks_of_a_host_share_its_gpus() -> None:
    assert gpus_here({**TASK, "CUDA_VISIBLE_DEVICES": "0,1"}) == {"CUDA_VISIBLE_DEVICES": "1"}


def test_the_port_is_the_jobs_own() -> None:
    jobs = [str(number) for number in range(4700, 4800)]
    ports = {resolve_task({**TASK, "LSB_JOBID": job}).address for job in jobs}  # type: ignore[union-attr]
    assert len(ports) == 100

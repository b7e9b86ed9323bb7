"""Variables and host files of Son of Grid Engine 8.1.9, as it wrote them, and what is made of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfmuster.cluster.resolvers import batch_job, engine_here, gpus_here, resolve_task
from tfmuster.cluster.resolvers.batch import SGE
from tfmuster.errors import LaunchError

#: Recorded in a job of `qsub -pe spread 6`: with $round_robin on four hosts.
HOST_FILE = """node4 2 all.q@node4 UNDEFINED
node2 2 all.q@node2 UNDEFINED
node3 1 all.q@node3 UNDEFINED
node1 1 all.q@node1 UNDEFINED
"""
#: Recorded in a task that `qrsh -inherit -V node2` had started in it; what is not Grid Engine's is left out.
TASK = {
    "JOB_ID": "2",
    "JOB_NAME": "petask",
    "NHOSTS": "1",
    "NQUEUES": "1",
    "NSLOTS": "2",
    "PE": "spread",
    "QUEUE": "all.q",
    "HOSTNAME": "node2",
    "SGE_TASK_ID": "undefined",
    "SGE_JOB_SPOOL_DIR": "/var/spool/gridengine/execd/node2/active_jobs/2.1/1.node2",
}


@pytest.fixture
def hosts(tmp_path: Path) -> Path:
    path = tmp_path / "pe_hostfile"
    path.write_text(HOST_FILE)
    return path


def task(hosts: Path, place: str = "1.node2", **more: str) -> dict[str, str]:
    spool = f"/var/spool/gridengine/execd/node2/active_jobs/2.1/{place}"
    return {**TASK, "PE_HOSTFILE": str(hosts), "SGE_JOB_SPOOL_DIR": spool, **more}


@pytest.mark.parametrize(
    ("place", "name", "address"),
    [
        ("1.node4", "worker 0", "node4:5000"),
        ("2.node4", "worker 1", "node4:5001"),
        ("1.node2", "worker 2", "node2:5000"),
        ("2.node2", "worker 3", "node2:5001"),
        ("1.node3", "worker 4", "node3:5000"),
        ("1.node1", "worker 5", "node1:5000"),
    ],
)
def test_slots_are_the_ranks_in_the_order_of_the_host_file(
    hosts: Path, place: str, name: str, address: str
) -> None:
    found = resolve_task(task(hosts, place), base_port=5000)
    assert found is not None
    assert (found.name, found.address) == (name, address)
    assert len(set(found.cluster.worker)) == 6
    assert engine_here(task(hosts, place)) == "Grid Engine"


def test_names_with_a_domain_are_kept(hosts: Path) -> None:
    hosts.write_text("n1.example.org 1 all.q@n1.example.org UNDEFINED\nn2.example.org 1 all.q@n2 0,1\n")
    found = resolve_task(task(hosts, "1.n2"), base_port=5000)
    assert found is not None
    assert found.address == "n2.example.org:5000"


def test_the_port_is_the_jobs_own(hosts: Path) -> None:
    ports = {resolve_task(task(hosts, JOB_ID=str(job))).address for job in range(100)}  # type: ignore[union-attr]
    assert len(ports) == 100


def test_a_batch_script_is_no_task_and_yet_a_job(hosts: Path) -> None:
    script = task(hosts)
    script["SGE_JOB_SPOOL_DIR"] = "/var/spool/gridengine/execd/node4/active_jobs/2.1"
    assert resolve_task(script) is None
    assert engine_here(script) is None
    job = batch_job(script)
    assert job is not None
    assert (job.system, job.number, job.stop) == ("sge", "2", ("qdel", "2"))
    # Each task of an array job ends alone.
    array = batch_job({**script, "SGE_TASK_ID": "3"})
    assert array is not None
    assert array.stop == ("qdel", "2", "-t", "3")
    assert batch_job({"JOB_ID": "2"}) is None


@pytest.mark.parametrize(
    ("place", "text", "found"),
    [
        ("3.node2", HOST_FILE, "task 3 on node2, which has 2 slots"),
        ("1.node9", HOST_FILE, "node9 is not among node4, node2, node3, node1"),
        ("1.node2", "", "is empty"),
        ("1.node2", "node2\n", "has the entry 'node2'"),
        ("1.node2", "node2 x q U\n", "has the entry 'node2 x'"),
        ("1.node2", "node2 0 q U\n", "has the entry 'node2 0'"),
        ("1.node2", "node2 999999 q U\n", "has the entry 'node2 999999'"),
    ],
)
def test_what_makes_no_sense_is_refused(hosts: Path, place: str, text: str, found: str) -> None:
    hosts.write_text(text)
    with pytest.raises(LaunchError) as refused:
        resolve_task(task(hosts, place))
    assert refused.value.fields["reason"] == "batch"
    assert found in str(refused.value)


def test_a_host_file_that_is_not_there_is_named(hosts: Path) -> None:
    without = task(hosts)
    del without["PE_HOSTFILE"]
    with pytest.raises(LaunchError, match="qrsh -inherit -V"):
        resolve_task(without)
    hosts.unlink()
    with pytest.raises(
        LaunchError, match=r"pe_hostfile: No such file or directory(.|\n)*Copy it to a directory"
    ):
        resolve_task(task(hosts))


@pytest.mark.parametrize(
    ("place", "visible", "seen"),
    [
        ("1.node2", "0,1", "0"),
        ("2.node2", "0,1,2,3", "2,3"),
        ("2.node2", "0", None),
        ("1.node3", "0,1", None),
    ],
)
def test_tasks_of_a_host_share_its_gpus(hosts: Path, place: str, visible: str, seen: str | None) -> None:
    shared = gpus_here(task(hosts, place, CUDA_VISIBLE_DEVICES=visible))
    assert shared == ({} if seen is None else {"CUDA_VISIBLE_DEVICES": seen})


def test_without_a_parallel_environment_there_is_this_host() -> None:
    assert len(SGE.slot_hosts({"JOB_ID": "1"})) == 1

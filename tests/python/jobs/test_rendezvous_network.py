"""The rendezvous between machines: network namespaces, firewalls that let one way through; as root."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator

import pytest

from support.clock import in_time, took_at_most
from support.rendezvous_job import Job, Result, Started
from support.spaces import Machine, ip, machines
from tfmuster.cluster.spec import Cluster

pytestmark = [
    pytest.mark.timeout(90),
    pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("ip"), reason="needs root and iproute2"),
]

PORT = 2222
LIMIT = 6.0
SILENCE = "no answer (a firewall, or the machine is down)"


@pytest.fixture
def hosts() -> Iterator[list[Machine]]:
    with machines(3) as made:
        yield made


@pytest.fixture
def cluster(hosts: list[Machine]) -> Cluster:
    return Cluster(worker=[f"{host.address}:{PORT}" for host in hosts])


def start_on(job: Job, hosts: list[Machine], cluster: Cluster, **options: object) -> list[Started]:
    return [job.start(cluster, "worker", i, prefix=hosts[i].prefix, **options) for i in range(3)]


def same_error(tasks: list[Started]) -> Result:
    results = [task.result() for task in tasks]
    assert [r.code for r in results] == [3, 3, 3], results
    assert all(r.last["error"] == results[0].last["error"] for r in results), results
    assert all(took_at_most(r.last["seconds"], LIMIT + 2) for r in results)
    return results[0]


def test_three_machines_meet(job: Job, hosts, cluster):
    assert [task.result().code for task in start_on(job, hosts, cluster)] == [0, 0, 0]


def test_a_one_way_firewall_between_workers_is_named(job: Job, hosts, cluster):
    hosts[1].let_nobody_in_from(hosts[2], PORT)
    result = same_error(start_on(job, hosts, cluster, timeout=LIMIT))
    assert result.text == (
        "The 3 tasks of the cluster can't work together.\n"
        f"  found: worker 2 can't reach worker 1 at 10.77.0.2:2222: {SILENCE}\n"
        "  to do: open port 2222 of 10.77.0.2 for worker 2 (firewall, security group, route), and "
        "check that the name resolves there"
    )


def test_a_worker_cut_off_from_the_chief_is_named_and_hears_it(job: Job, hosts, cluster):
    hosts[0].let_nobody_in_from(hosts[2], PORT)
    result = same_error(start_on(job, hosts, cluster, timeout=LIMIT))
    assert result.text == (
        "The 3 tasks of the cluster did not come together within 6 s.\n"
        f"  found: worker 2 can't reach worker 0 at 10.77.0.1:2222: {SILENCE}\n"
        "  to do: open port 2222 of 10.77.0.1 for worker 2 (firewall, security group, route), and "
        "check that the name resolves there"
    )
    assert "which runs but can't reach worker 0" in result.stderr


def test_a_wrong_index_on_another_machine_is_named(job: Job, hosts, cluster):
    tasks = [
        job.start(cluster, "worker", i, prefix=hosts[h].prefix, timeout=LIMIT)
        for h, i in enumerate((0, 1, 1))
    ]
    text = same_error(tasks).text
    assert "worker 1 is here twice: on " in text
    assert "worker 2 (10.77.0.3:2222) is missing" in text


def test_a_second_chief_on_another_machine_is_named(job: Job, hosts, cluster):
    # It starts first, alone on its machine, and so believes for a while that it is the chief.
    false_chief = job.start(cluster, "worker", 0, prefix=hosts[1].prefix, timeout=LIMIT + 2)
    time.sleep(1.5)
    true_chief = job.start(cluster, "worker", 0, prefix=hosts[0].prefix, timeout=LIMIT)
    worker = job.start(cluster, "worker", 2, prefix=hosts[2].prefix, timeout=LIMIT)
    text = same_error([false_chief, true_chief, worker]).text
    assert "worker 0 is here twice: on " in text
    assert f"(pid {false_chief.pid})" in text and f"(pid {true_chief.pid})" in text


@pytest.mark.slow
def test_a_link_that_is_cut_is_noticed(job: Job, hosts, cluster):
    wait = "control.wait_done(50)"
    tasks = start_on(job, hosts, cluster, then=wait)
    for task in tasks:
        task.wait_for_go()
    ip("-n", hosts[2].name, "link", "set", "eth0", "down")
    began = time.monotonic()
    results = [task.result(40) for task in tasks]
    assert in_time(began, 15)
    for result in results[:2]:
        host = result.last["error"]["host"]
        assert result.text == (
            f"worker 2 (host {host}, pid {tasks[2].pid}) disappeared: "
            "its machine is down or cut off from the network"
        )
    assert results[2].text.startswith(f"worker 0 (host {host}, pid {tasks[0].pid}) disappeared: ")

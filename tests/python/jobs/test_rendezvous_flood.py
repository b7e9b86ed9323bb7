"""Strangers who call the ports of a rendezvous as fast as this machine allows."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from support.clock import took_at_most
from support.paths import PROGRAMS
from support.rendezvous_job import Job, local_cluster

pytestmark = [pytest.mark.fresh, pytest.mark.timeout(120)]

THREADS = 8


def test_a_flood_does_not_keep_a_job_from_starting(job: Job) -> None:
    cluster = local_cluster(3)
    ports = [address.rpartition(":")[2] for address in cluster.jobs["worker"]]
    program = [sys.executable, PROGRAMS / "flood.py"]
    floods = [
        subprocess.Popen(
            [*program, port, str(THREADS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for port in ports
    ]
    try:
        began = time.monotonic()
        tasks = [job.start(cluster, "worker", index, timeout=60) for index in (0, 1)]
        time.sleep(4)
        tasks.append(job.start(cluster, "worker", 2, timeout=60))
        results = [task.result(70) for task in tasks]
        seconds = time.monotonic() - began
    finally:
        for flood in floods:
            assert flood.stdin is not None
            flood.stdin.close()
        made = sum(int(flood.stdout.read()) for flood in floods if flood.stdout)
        for flood in floods:
            flood.wait(20)
    print(f"{made:,} connections in {seconds:.1f} s; worker 2 waited {results[2].last['seconds']:.2f} s")
    assert [result.code for result in results] == [0, 0, 0], results
    # That is how many were made while two waited for the third.
    assert made > 5_000
    assert results[2].events[0]["event"] == "go" and took_at_most(results[2].events[0]["seconds"], 15)

"""Run a Python program as the workers of a job on this machine, with nothing but TF_CONFIG set."""

from __future__ import annotations

import contextlib
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from typing import TextIO

from support.clock import in_time
from support.paths import PROGRAMS
from tfmuster.net.ports import free_ports


def free_addresses(count: int) -> list[str]:
    """Addresses on loopback that nobody listened on a moment ago."""
    return [f"127.0.0.1:{port}" for port in free_ports(count)]


def run_job(
    program: str, workers: int, *arguments: object, limit: float = 200, env: dict[str, str] | None = None
) -> list[subprocess.CompletedProcess[str]]:
    """Run ``programs/<program>`` on ``workers`` workers, or with 0 in one process without TF_CONFIG.

    A worker that fails ends the others after a moment, which would wait for it forever. Their output goes
    into files: nobody reads a pipe while they run, and a program that has filled one waits forever.
    """
    addresses = free_addresses(workers)
    processes = []
    with contextlib.ExitStack() as files:
        said = [
            [files.enter_context(tempfile.TemporaryFile("w+")) for _ in "oe"] for _ in range(max(workers, 1))
        ]
        for index, (out, err) in enumerate(said):
            environ = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **(env or {})}
            environ.pop("TF_CONFIG", None)
            if workers:
                environ["TF_CONFIG"] = json.dumps(
                    {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
                )
            command = [sys.executable, PROGRAMS / program, *map(str, arguments)]
            processes.append(subprocess.Popen(command, env=environ, stdout=out, stderr=err))
        begun, failed = time.monotonic(), math.inf
        while in_time(begun, limit) and any(p.poll() is None for p in processes):
            if any(p.poll() not in (None, 0) for p in processes):
                failed = min(failed, time.monotonic())
            # TensorFlow notices a worker that ended before the first operation after ten seconds.
            if not in_time(failed, 25):
                break
            time.sleep(0.1)
        done = []
        for process, (out, err) in zip(processes, said, strict=True):
            process.kill()
            code = process.wait()
            done.append(subprocess.CompletedProcess(process.args, code, text_of(out), text_of(err)))
    return done


def text_of(file: TextIO) -> str:
    """What another process has written to a file."""
    file.seek(0)
    return file.read()


def succeeded(done: list[subprocess.CompletedProcess[str]]) -> list[subprocess.CompletedProcess[str]]:
    """The same, if every worker ended well; else a failure that shows what each one said last."""
    texts = [
        f"worker {i}: exit {p.returncode}\n{p.stdout[-1500:]}\n{p.stderr[-3000:]}" for i, p in enumerate(done)
    ]
    assert all(p.returncode == 0 for p in done), "\n".join(texts)
    return done


def cluster_of_one(job: str = "worker") -> str:
    address = free_addresses(1)[0]
    return json.dumps({"cluster": {job: [address]}, "task": {"type": job, "index": 0}})

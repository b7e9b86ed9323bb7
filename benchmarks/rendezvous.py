"""How the rendezvous grows: 10, 100 and 1,000 tasks on loopback, the chief in a process of its own.

    python benchmarks/rendezvous.py [TASKS ...] [--token] [--repeat 3]

Every task runs the real `muster`, the others as threads of a few processes. The clock starts when all are
ready and stops when the last has heard "go"; the port checks (a ring, and the chief with all) are in it.
The chief's memory is the peak of its whole process. To hold: 1,000 tasks within 5 s and 200 MB, and costs
that grow no faster than the tasks.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import threading
import time
from typing import Any

from tfmuster.cluster.spec import Cluster, Task
from tfmuster.errors import TfmusterError
from tfmuster.net.ports import free_ports
from tfmuster.rendezvous.task.meet import muster

VERSIONS = {"tfmuster": "0.1.0", "tensorflow": "2.21.0", "keras": "3.15.1", "python": "3.11"}
#: Threads of one process; more of them spend their time on waiting for each other.
PER_PROCESS = 100


def take_part(cluster: Cluster, indices: range, token: str | None) -> dict[str, float]:
    """Run these tasks as threads; what it cost this process."""
    wall: list[float] = []
    gate = threading.Barrier(len(indices) + 1)

    def one(task: Task) -> None:
        gate.wait()
        try:
            control = muster(task, timeout=60, token=token, versions=VERSIONS, on_progress=lambda _: None)
        except TfmusterError as error:
            print(error, file=sys.stderr)
            os._exit(error.exit_code)
        wall.append(time.time())
        gate.wait()
        control.done()

    threading.stack_size(256 * 1024)
    threads = [threading.Thread(target=one, args=(cluster.task("worker", i),)) for i in indices]
    for thread in threads:
        thread.start()
    print("ready", flush=True)
    sys.stdin.readline()
    cpu = time.process_time()
    gate.wait()
    gate.wait()
    cpu = time.process_time() - cpu
    for thread in threads:
        thread.join()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"last": max(wall), "cpu": cpu, "peak_mb": peak}


def measure(tasks: int, token: str | None) -> dict[str, float]:
    cluster = Cluster(worker=[f"127.0.0.1:{port}" for port in free_ports(tasks)])
    given = json.dumps({"cluster": cluster.to_dict(), "token": token})
    parts = [
        subprocess.Popen(
            [sys.executable, __file__, "--part", str(first), str(last)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for first, last in [(0, 1), *((i, min(i + PER_PROCESS, tasks)) for i in range(1, tasks, PER_PROCESS))]
    ]
    for part in parts:
        assert part.stdin is not None
        part.stdin.write(given + "\n")
        part.stdin.flush()
    for part in parts:
        assert part.stdout is not None
        part.stdout.readline()
    began = time.time()
    for part in parts:
        assert part.stdin is not None
        part.stdin.write("go\n")
        part.stdin.flush()
    results: list[dict[str, Any]] = [json.loads(part.communicate(timeout=120)[0]) for part in parts]
    chief = results[0]
    return {
        "seconds": max(result["last"] for result in results) - began,
        "chief_cpu": chief["cpu"],
        "chief_peak_mb": chief["peak_mb"],
        "others_cpu": sum(result["cpu"] for result in results[1:]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tasks", nargs="*", type=int, default=[10, 100, 1000])
    parser.add_argument("--token", action="store_true", help="authenticate every message")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--part", nargs=2, type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.part:
        job = json.loads(sys.stdin.readline())
        print(
            json.dumps(take_part(Cluster.from_dict(job["cluster"]), range(*given.part), job["token"])),
            flush=True,
        )
        os._exit(0)
    print("tasks  seconds  ms/task  chief CPU s  chief peak MB  all others CPU s")
    rows = []
    for tasks in given.tasks:
        runs = [measure(tasks, "secret" if given.token else None) for _ in range(given.repeat)]
        row = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
        rows.append((tasks, row))
        print(
            f"{tasks:5}  {row['seconds']:7.2f}  {1000 * row['seconds'] / tasks:7.2f}"
            f"  {row['chief_cpu']:11.2f}  {row['chief_peak_mb']:13.0f}"
            f"  {row['others_cpu']:16.2f}"
        )
    if len(rows) > 1:
        (few, before), (many, after) = rows[-2:]
        ratio = after["chief_cpu"] / before["chief_cpu"] / (many / few)
        print(f"chief CPU per task, {many} against {few} tasks: ratio {ratio:.2f} (1 is linear)")


if __name__ == "__main__":
    main()

"""How fast ``tfmuster config`` is: ratios and differences within one run, medians of the repetitions.

    python benchmarks/config.py [--repeat 15]

Exits with 1 if a limit is passed: twice the bare imports for one task; 0.3 s more for a cluster of 10,000
workers; 1 s for all tasks of a cluster of 1,000.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "python"
TASK = ["--type", "worker", "--index", "1"]


def write_cluster(folder: str, workers: int) -> str:
    path = Path(folder) / f"{workers}.json"
    path.write_text(json.dumps({"worker": [f"node-{i}.example.org:2222" for i in range(workers)]}))
    return str(path)


def seconds(*arguments: str) -> float:
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    return time.perf_counter() - start


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeat", type=int, default=15)
    repeat = parser.parse_args().repeat
    config = ["-m", "tfmuster", "config"]
    with tempfile.TemporaryDirectory() as folder:
        commands = {
            "imports": ["-c", "import click, orjson"],
            "one task": [*config, "--worker", "a:1", "--worker", "b:2", *TASK],
            "10,000 workers": [*config, "--cluster", write_cluster(folder, 10_000), *TASK],
            "all of 1,000": [*config, "--cluster", write_cluster(folder, 1_000), "--all"],
        }
        times: dict[str, list[float]] = {name: [] for name in commands}
        # In turns, so that a busy moment of the machine falls on all of them alike; the first turn warms up.
        for turn in range(repeat + 1):
            for name, command in commands.items():
                taken = seconds(*command)
                if turn:
                    times[name].append(taken)
    median = {name: statistics.median(each) for name, each in times.items()}
    results = [
        ("one task / bare imports", median["one task"] / median["imports"], 2.0, "times"),
        ("10,000 workers - one task", median["10,000 workers"] - median["one task"], 0.3, "s"),
        ("all tasks of 1,000 workers", median["all of 1,000"], 1.0, "s"),
    ]
    for name, value, limit, unit in results:
        print(f"{name:<28} {value:6.3f} {unit:<5} (limit {limit:g})")
    return int(any(value > limit for _, value, limit, _ in results))


if __name__ == "__main__":
    raise SystemExit(main())

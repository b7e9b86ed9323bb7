"""What ``tfmuster launch`` costs: a whole 2-worker job by it, against the same two bare processes.

    python benchmarks/launch.py [--repeat 5]

The job is `cnn` with its defaults: 3 epochs of 5 steps. Both ways run in turn, so that whatever else the
machine does affects both; the figure is the median of the ratios of neighbours. Exits with 1 above 1.05.
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

from tfmuster.net.ports import free_ports

LIMIT = 1.05
TRAIN = ["train", "mnist", "--recipe", "document", "--dataset", "synthetic", "--model", "cnn"]
TFMUSTER = [sys.executable, "-m", "tfmuster"]


def by_hand(folder: Path) -> float:
    """Seconds for two processes that have TF_CONFIG and nothing else."""
    cluster = {"worker": [f"127.0.0.1:{port}" for port in free_ports(2)]}
    begun = time.perf_counter()
    processes = []
    for index in range(2):
        tf_config = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})
        with (folder / f"by-hand-{index}.log").open("wb") as log:
            processes.append(
                subprocess.Popen(
                    [*TFMUSTER, *TRAIN],
                    cwd=folder,
                    env={**os.environ, "TF_CONFIG": tf_config},
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
            )
    end = time.monotonic() + 300
    while any(process.poll() is None for process in processes) and time.monotonic() < end:
        if any(process.poll() for process in processes):
            break
        time.sleep(0.01)
    took = time.perf_counter() - begun
    if any(process.poll() != 0 for process in processes):
        for index, process in enumerate(processes):
            process.kill()
            print((folder / f"by-hand-{index}.log").read_text(errors="replace"), file=sys.stderr)
        sys.exit("a worker without the launcher failed or did not end")
    return took


def by_launch(folder: Path) -> float:
    """Seconds for the same by ``tfmuster launch``, its own start and end included."""
    begun = time.perf_counter()
    subprocess.run(
        [*TFMUSTER, "launch", "-n", "2", "--", "tfmuster", *TRAIN],
        cwd=folder,
        check=True,
        timeout=300,
        capture_output=True,
    )
    return time.perf_counter() - begun


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeat", type=int, default=5)
    repeat = parser.parse_args().repeat
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        by_hand(folder)
        pairs = []
        for turn in range(repeat):
            # The order alternates, so that neither always runs on a warmer machine.
            ways = (by_hand, by_launch) if turn % 2 else (by_launch, by_hand)
            seconds = {way: way(folder) for way in ways}
            pairs.append((seconds[by_launch], seconds[by_hand]))
    ratio = statistics.median(launched / bare for launched, bare in pairs)
    launched, bare = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(f"bare {bare:.2f} s, by launch {launched:.2f} s, ratio {ratio:.3f} (limit {LIMIT})")
    return int(ratio > LIMIT)


if __name__ == "__main__":
    raise SystemExit(main())

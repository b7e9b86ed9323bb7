"""Test accuracy of every model on real digits: two workers against one process on the same global batches.

Usage: accuracy.py MNIST.npz [--quick]. Prints a table; exit code 1 if two workers are below the floor of
their row, or more than 0.7 points from one process. ``--quick`` trains only the rows that take seconds.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

#: Largest difference from one process, in points.
NEAR = 0.7


@dataclass(frozen=True)
class Row:
    """One training: what is told to ``tfmuster train mnist``, and what two workers must reach, in percent."""

    name: str
    options: str
    batch_size: int  # per worker
    floor: float
    quick: bool = True


# The document of softmax has batches of 100; two workers make them up of 50 each.
ROWS = (
    Row(
        "cnn, Adam, 10 epochs",
        "--model cnn --optimizer adam --learning-rate 0.001 --epochs 10 --steps-per-epoch 0",
        64,
        96.5,
    ),
    Row("deep_cnn as documented", "--model deep_cnn", 50, 97.3, quick=False),
    Row("mlp as documented", "--model mlp", 128, 93.5),
    Row("softmax as documented", "--model softmax", 50, 72.0, quick=False),
    Row("softmax from zeros", "--model softmax --initial-weights zeros", 50, 88.0, quick=False),
)


def train(row: Row, workers: int, data: Path) -> tuple[float, float]:
    """Test accuracy in percent, and the wall time in seconds."""
    with tempfile.TemporaryDirectory() as folder:
        history = Path(folder, "history.json")
        batch_size = row.batch_size * (1 if workers > 1 else 2)
        command = ["tfmuster", "train", "mnist", "--recipe", "document", "--quiet"]
        command += ["--dataset", str(data), "--history", str(history)]
        command += [*row.options.split(), "--batch-size", str(batch_size)]
        if workers > 1:
            command = [
                "tfmuster",
                "launch",
                "-n",
                str(workers),
                "--run-dir",
                f"{folder}/run",
                "--quiet",
                "--",
                *command,
            ]
        begun = time.monotonic()
        subprocess.run([sys.executable, "-m", *command], check=True, timeout=1800)
        return 100 * json.loads(history.read_text())["test_accuracy"], time.monotonic() - begun


def main() -> int:
    """Run the rows and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    print("| model | one process, % | two workers, % | floor, % | one process, s | two workers, s |")
    print("|---|---|---|---|---|---|")
    failed = 0
    for row in ROWS:
        if arguments.quick and not row.quick:
            continue
        (one, one_seconds), (two, two_seconds) = (train(row, n, arguments.data.resolve()) for n in (1, 2))
        good = two >= row.floor and abs(two - one) <= NEAR
        failed += not good
        times = f"{one_seconds:.0f} | {two_seconds:.0f}"
        print(
            f"| {row.name} | {one:.2f} | {two:.2f} | {row.floor} | {times} |{'' if good else ' MISSED'}",
            flush=True,
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

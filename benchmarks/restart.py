"""How long a restart takes, beside the start of the same job.

Usage: restart.py [--repeats 5] [--workers 2] [--after 0] [--options=OPTIONS] [--ssh]

Each job trains a small model with checkpoints. At step 20, one worker is ended by SIGKILL, and the launcher
starts all again. With --after, all wait at that step until so many seconds have passed since the script
began: with --options=--warm, spare processes need some seconds until they are ready. With --ssh, the workers
are on hosts of their own, which are network namespaces and share no run directory: PYTHONPATH must have
tests/python, and it needs root.

Measured in the same job: the seconds from the launcher's start to the end of the first step, and from the
kill to the end of the first step after it. The table has each repetition's figures and the median of their
ratios.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

PROGRAM = """
import os, signal, time, pathlib
import numpy as np, tfmuster
strategy = tfmuster.strategy("multi_worker_mirrored")
import keras
index, attempt = tfmuster.current_task().index, int(os.environ["TFMUSTER_RESTART"])
after = time.time() + float(os.environ["BENCHMARK_AFTER"])
folder = pathlib.Path(os.environ["BENCHMARK_FOLDER"])

class Watch(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        here = folder / f"step-{attempt}-{index}"
        if not here.exists():
            here.write_text(str(time.time()))
        if attempt == 1 and batch % 20 == 19:
            self.model.stop_training = True
        if attempt == 0 and index == 1 and batch == 20:
            time.sleep(max(0, after - time.time()))
            (folder / "killed").write_text(str(time.time()))
            os.kill(os.getpid(), signal.SIGKILL)

x, y = np.zeros((4096, 784), "float32"), np.zeros(4096, "int32")
with strategy.scope():
    model = keras.Sequential([keras.Input((784,)), keras.layers.Dense(128, "relu"), keras.layers.Dense(10)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, steps_per_execution=1)
callbacks = [tfmuster.checkpoint_callback(every=10), Watch()]
model.fit(x, y, batch_size=64, epochs=1000, verbose=0, callbacks=callbacks)
"""


def once(workers: int, after: float, options: list[str], network: Any) -> tuple[float, float]:
    """Return the seconds of a start and of a restart."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "train.py").write_text(PROGRAM)
        launch = [sys.executable, "-m", "tfmuster", "launch", "-n", str(workers), "--max-restarts", "1"]
        launch += ["--env", f"BENCHMARK_AFTER={after}", "--env", f"BENCHMARK_FOLDER={folder}", *options]
        if network is not None:
            hosts = ",".join(list(network.machines)[:workers])
            launch = ["ip", "netns", "exec", network.here, *launch, "-H", hosts]
            launch += ["--ssh-config", str(network.config)]
        begun = time.time()
        subprocess.run(
            [*launch, "--quiet", str(folder / "train.py")],
            cwd=folder if network is None else network.work,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
            check=True,
            timeout=120 + after,
        )

        def moment(stem: str) -> float:
            return max(float(path.read_text()) for path in folder.glob(f"{stem}*"))

        return moment("step-0-") - begun, moment("step-1-") - moment("killed")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--after", type=float, default=0)
    parser.add_argument("--options", type=str.split, default=[])
    parser.add_argument("--ssh", action="store_true", help="on hosts, which are network namespaces")
    given = parser.parse_args()
    ratios = []
    print("| start, s | restart, s | ratio |\n|---|---|---|")
    with contextlib.ExitStack() as stack:
        network = None
        if given.ssh:
            from support.hosts import built

            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            network = stack.enter_context(built(folder / "network"))
        for _ in range(given.repeats):
            start, restart = once(given.workers, given.after, given.options, network)
            ratios.append(restart / start)
            print(f"| {start:.2f} | {restart:.2f} | {ratios[-1]:.2f} |", flush=True)
    print(f"\nmedian of the ratios: {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()

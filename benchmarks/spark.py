"""Whole-job time by tfmuster, against the same by spark-tensorflow-distributor and two bare processes.

    python benchmarks/spark.py [--repeat 5]

The program is a plain tf.function loop under MultiWorkerMirroredStrategy, which needs no repair of Keras: 15
steps of the small CNN on two workers of this machine. spark-tensorflow-distributor runs in an environment of
its own, .venvs/spark, with the same TensorFlow and Keras, by Spark in local mode. All ways run in turn; each
figure is the median of the ratios to the bare processes of the same turn.
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
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).resolve()
VENV = HERE.parents[1] / ".venvs" / "spark"
PYTHON = VENV / "bin" / "python"
LIMIT = 300.0


def train() -> float:
    """The program: the last loss."""
    import keras
    import numpy as np
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    generator = np.random.default_rng(0)
    images = tf.constant(generator.normal(size=(64, 28, 28, 1)), tf.float32)
    labels = tf.constant(generator.integers(0, 10, 64))
    with strategy.scope():
        model = keras.Sequential(
            [
                keras.Input((28, 28, 1)),
                keras.layers.Conv2D(32, 3, activation="relu"),
                keras.layers.MaxPooling2D(),
                keras.layers.Flatten(),
                keras.layers.Dense(64, activation="relu"),
                keras.layers.Dense(10),
            ]
        )
        optimizer = keras.optimizers.SGD(0.001)
        optimizer.build(model.trainable_variables)

    def step() -> tf.Tensor:
        with tf.GradientTape() as tape:
            logits = model(images, training=True)
            loss = tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(labels, logits, True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    train_step = tf.function(lambda: strategy.run(step))
    for _ in range(15):
        loss = train_step()
    return float(strategy.reduce("MEAN", loss, axis=None))


def distributed_by_spark() -> None:
    """The same function by spark-tensorflow-distributor; says how long it took without Spark's own start."""
    from pyspark.sql import SparkSession
    from spark_tensorflow_distributor import MirroredStrategyRunner

    SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    begun = time.perf_counter()
    MirroredStrategyRunner(num_slots=2, use_gpu=False, use_custom_strategy=True).run(train)
    print("RUN", time.perf_counter() - begun)


def set_up() -> None:
    """Make the environment of spark-tensorflow-distributor, unless it is there."""
    if not PYTHON.exists():
        subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
    same = [f"{name}=={version(name)}" for name in ("tensorflow", "keras", "numpy")]
    install = [PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, *same, "pyspark>=4", "spark-tensorflow-distributor==1.0.0"], check=True)


def by_hand(folder: Path) -> dict[str, float]:
    """Two processes that have TF_CONFIG and nothing else."""
    # This file is run in an environment without tfmuster, too.
    from tfmuster.net.ports import free_ports

    cluster = {"worker": [f"127.0.0.1:{port}" for port in free_ports(2)]}
    begun = time.perf_counter()
    processes = []
    for index in range(2):
        tf_config = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})
        processes.append(
            subprocess.Popen(
                [sys.executable, HERE, "--train"],
                cwd=folder,
                env={**os.environ, "TF_CONFIG": tf_config},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        )
    for process in processes:
        if process.wait(LIMIT):
            sys.exit("a worker without the launcher failed")
    return {"two bare processes": time.perf_counter() - begun}


def by_launch(folder: Path) -> dict[str, float]:
    """`tfmuster launch`."""
    return {"tfmuster launch": _timed(folder, "launch", "-n", "2", HERE, "--train")}


def by_launch_on_spark(folder: Path) -> dict[str, float]:
    """`tfmuster launch` by Spark in local mode, the start of Spark included."""
    spark = ("--backend", "spark", "--master", "local[2]")
    return {"tfmuster launch --backend spark": _timed(folder, "launch", *spark, "-n", "2", HERE, "--train")}


def by_distributor(folder: Path) -> dict[str, float]:
    """spark-tensorflow-distributor: all of it, and without the start of Spark."""
    begun = time.perf_counter()
    done = subprocess.run(
        [PYTHON, HERE, "--distribute"],
        cwd=folder,
        check=True,
        timeout=LIMIT,
        capture_output=True,
        text=True,
        env={**os.environ, "PYSPARK_PYTHON": str(PYTHON), "SPARK_LOCAL_IP": "127.0.0.1"},
    )
    whole = time.perf_counter() - begun
    (run,) = (float(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("RUN "))
    name = "spark-tensorflow-distributor"
    return {name: whole, f"{name}, in a session that runs": run}


def _timed(folder: Path, *arguments: object) -> float:
    begun = time.perf_counter()
    command = [sys.executable, "-m", "tfmuster", *map(str, arguments)]
    subprocess.run(command, cwd=folder, check=True, timeout=LIMIT, capture_output=True)
    return time.perf_counter() - begun


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--train", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--distribute", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.train:
        train()
        return
    if arguments.distribute:
        distributed_by_spark()
        return
    set_up()
    ways: list[Callable[[Path], dict[str, float]]] = [by_hand, by_launch, by_launch_on_spark, by_distributor]
    turns: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for way in ways:
            way(folder)  # what a first run puts into caches
        for turn in range(arguments.repeat):
            # The order alternates, so that none always runs on a warmer machine.
            order = ways[turn % len(ways) :] + ways[: turn % len(ways)]
            turns.append({what: seconds for way in order for what, seconds in way(folder).items()})
    print("| whole job | seconds | / two bare processes |")
    print("|---|---|---|")
    for what in sorted(turns[0], key=lambda what: statistics.median(t[what] for t in turns)):
        seconds = statistics.median(t[what] for t in turns)
        ratio = statistics.median(t[what] / t["two bare processes"] for t in turns)
        print(f"| {what} | {seconds:.2f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()

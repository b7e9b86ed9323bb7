"""Keras's fit on two workers, against a hand-written loop, and against what two machines could do at most.

Usage: fit.py [--batches 32,64,256] [--steps 150] [--repeats 5] [--workers 2] [--data MNIST.npz]. Each process
has a core of its own. For each batch size per worker, a Markdown row with medians over the repetitions:

loop        a step of a hand-written tf.function loop under MultiWorkerMirroredStrategy, milliseconds
fit / loop  a step of `fit` (difference of two lengths) over a step of the loop of the same repetition
start + end what a call of `fit` costs beyond its steps, seconds, and the loop's first batch
efficiency  images/s of `fit`, over the sum of as many one-worker loops side by side on the same cores, with
            the same input pipeline
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "python"))


def worker(arguments: argparse.Namespace) -> None:
    """What each process measures; prints one JSON document."""
    import tensorflow as tf

    import tfmuster
    from tfmuster import datasets
    from tfmuster.strategies import in_cluster

    alone = not in_cluster()
    strategy = tfmuster.strategy("default" if alone else "multi_worker_mirrored")
    digits = datasets.load(arguments.data)
    workers = strategy.num_replicas_in_sync
    measured: dict[str, Any] = {}
    for per_worker in arguments.batches:
        batch = per_worker * workers
        data = datasets.batches(digits.x_train, digits.y_train, batch, seed=0, repeat=True, strategy=strategy)
        loop = Loop(strategy, data, batch)
        rows: list[dict[str, float]] = []
        model = None
        if not alone:
            with strategy.scope():
                model = tfmuster.mnist_model("cnn", seed=0, steps_per_execution=arguments.steps_per_execution)
            model.fit(data, steps_per_epoch=20, epochs=1, verbose=0, shuffle=False)  # traces
        for _ in range(arguments.repeats):
            row = {"loop": loop.seconds_per_step(arguments.steps)}
            if model is not None:
                times = []
                for steps in (arguments.steps, 2 * arguments.steps):
                    begin = time.perf_counter()
                    model.fit(data, steps_per_epoch=steps, epochs=1, verbose=0, shuffle=False)
                    times.append(time.perf_counter() - begin)
                row["fit"] = (times[1] - times[0]) / arguments.steps
                row["around"] = times[0] - arguments.steps * row["fit"]
            rows.append(row)
        measured[str(per_worker)] = {"rows": rows, "first": loop.first}
        tf.keras.backend.clear_session()
    print("MEASURED", json.dumps(measured), flush=True)


class Loop:
    """A training loop as one would write it by hand: one tf.function call per step."""

    def __init__(self, strategy: Any, data: Any, batch: int) -> None:
        import keras
        import tensorflow as tf

        import tfmuster
        from tfmuster.keras_compat import multi_worker, worker_of

        with strategy.scope():
            model = tfmuster.mnist_model("cnn", seed=0)
            optimizer = keras.optimizers.SGD(0.001)
            optimizer.build(model.trainable_variables)
        # The local part of each global batch, as fit reads it, so that the loops differ in nothing else.
        parts = data.tfmuster_parts(*(worker_of(strategy) if multi_worker(strategy) else (0, 1)))
        self.iterator = iter(parts)

        def step(images: Any, labels: Any) -> Any:
            with tf.GradientTape() as tape:
                logits = model(images, training=True)
                losses = keras.ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)
                loss = tf.reduce_sum(losses) / batch
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            return loss

        @tf.function
        def train_step(images: Any, labels: Any) -> Any:
            return strategy.run(step, args=(images, labels))

        self.train_step = train_step
        begin = time.perf_counter()
        self.seconds_per_step(1)
        self.first = time.perf_counter() - begin
        self.seconds_per_step(20)

    def seconds_per_step(self, steps: int) -> float:
        begin = time.perf_counter()
        for _ in range(steps):
            loss = self.train_step(*next(self.iterator).data)
        float(loss)
        return (time.perf_counter() - begin) / steps


def run(arguments: list[str], workers: int, addresses: list[str]) -> list[dict[str, Any]]:
    """Run the workers, each on its own core, with a cluster or as independent processes."""
    processes = []
    for index in range(workers):
        environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
        environment.pop("TF_CONFIG", None)
        if addresses:
            place = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
            environment["TF_CONFIG"] = json.dumps(place)
        core = str(index % (os.cpu_count() or 1))
        command = ["taskset", "-c", core, sys.executable, __file__, "--worker", *arguments]
        processes.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
    outputs = [process.communicate(timeout=3000)[0] for process in processes]
    lines = [line for text in outputs for line in text.splitlines() if line.startswith("MEASURED ")]
    if len(lines) != workers:
        raise SystemExit(f"{len(lines)} of {workers} workers measured anything")
    return [json.loads(line.removeprefix("MEASURED ")) for line in lines]


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--batches", type=lambda text: [int(n) for n in text.split(",")], default=[32, 64, 256]
    )
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--steps-per-execution", type=int, default=1)
    parser.add_argument("--data", default=os.environ.get("TFMUSTER_MNIST", "synthetic"))
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        worker(arguments)
        return
    from jobs import free_addresses

    together = run(sys.argv[1:], arguments.workers, free_addresses(arguments.workers))
    apart = run(sys.argv[1:], arguments.workers, [])
    columns = ("images per worker", "loop, ms", "fit / loop", "start + end, s (first batch)")
    print("|", " | ".join((*columns, "fit, images/s", "efficiency")), "|")
    print("|---|---|---|---|---|---|")
    for per_worker in arguments.batches:
        chief = together[0][str(per_worker)]
        loop, fit, around = (
            statistics.median(row[k] for row in chief["rows"]) for k in ("loop", "fit", "around")
        )
        ratio = statistics.median(row["fit"] / row["loop"] for row in chief["rows"])
        alone = sum(
            per_worker / statistics.median(row["loop"] for row in one[str(per_worker)]["rows"])
            for one in apart
        )
        rate = per_worker * arguments.workers / fit
        print(
            f"| {per_worker} | {1000 * loop:.1f} | {ratio:.2f} | {around:.2f} ({chief['first']:.2f}) "
            f"| {rate:,.0f} | {rate / alone:.2f} |"
        )


if __name__ == "__main__":
    main()

"""Keras's fit on several workers, against a hand-written loop, and against what the cores could do at most.

Usage: fit.py [--batches 32,64,256,1024] [--steps 100] [--repeats 5] [--workers 2] [--data MNIST.npz]
              [--gradient-dtype bfloat16]

Run it with PYTHONPATH=tests/python, where the package support is.

Groups of processes, each process on a core of its own, measure in turn: the workers of one job, as many
processes that know nothing of each other, and the workers of a job whose Keras is tf-keras 2, which
TensorFlow runs on several workers by itself. For each batch size per worker, a Markdown row with medians over
the repetitions:

loop        a step of a hand-written tf.function loop under MultiWorkerMirroredStrategy, milliseconds
fit / loop  a step of `fit` (difference of two lengths) over a step of the loop of the same repetition
tutorial / fit   a step of `fit` on from_tensor_slices().cache().repeat().shuffle(10000).batch().prefetch(4)
            over one on `batches()`
start + end what a call of `fit` costs beyond its steps, seconds, beside the first batch of the loop
evaluate    `evaluate` of the test digits, a whole call, seconds
predict     `predict` of the test digits, a whole call, seconds; beside it one process alone
tf-keras    a step of tf-keras's `fit` over one of `fit`; and its start + end, seconds
efficiency  images/s of `fit`, over the sum of the one-worker loops side by side, with the same input pipeline
per element the same, over the sum of loops whose tf.data batches shuffled elements, as in tutorials
limit       the same, over the sum of their steps on one batch that stays in memory
in step     the highest efficiency of workers that send nothing and only wait in each step for the
            slowest: from the times of the one-worker loops' single steps
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from typing import Any

from process_group import LEGACY, Group, answer_questions

COLUMNS = (
    *("images per worker", "loop, ms", "fit, ms", "fit / loop", "tutorial / fit"),
    "start + end, s (first batch)",
    *(
        "evaluate, s",
        "predict, s (alone)",
        "tf-keras / fit",
        "its start + end, s",
        "fit, images/s",
        "efficiency",
        "per element",
        "limit",
        "in step",
    ),
)


class Measurements:
    """What one process measures at one batch size."""

    def __init__(self, strategy: Any, digits: Any, per_worker: int) -> None:
        import tensorflow as tf

        import tfmuster

        self.batch = batch = per_worker * strategy.num_replicas_in_sync
        self.images = digits.x_test
        self.data = tfmuster.batches(
            digits.x_train, digits.y_train, batch, seed=0, repeated=True, strategy=strategy
        )
        self.test = tfmuster.batches(
            digits.x_test, digits.y_test, batch, seed=0, shuffle=False, strategy=strategy
        )
        rows = tf.data.Dataset.from_tensor_slices((digits.x_train, digits.y_train))
        self.tutorial = rows.cache().repeat().shuffle(10000).batch(batch).prefetch(4)
        # The loops have an optimizer of Keras 3.
        self.loop = None if LEGACY in os.environ else Loop(strategy, own_rows(self.data, strategy), batch)
        alone = "TF_CONFIG" not in os.environ
        self.plain = Loop(strategy, batched_elements(digits, batch), batch) if alone and self.loop else None
        with strategy.scope():
            self.model = tfmuster.mnist_model("cnn", seed=0, recipe="document")

    def measure(self, what: str, steps: int) -> float | list[float]:
        """Seconds of so many steps, of each for ``each``; of a whole call for ``fit``; of the first batch."""
        if what == "first":
            return self.loop.first if self.loop else 0.0
        if what == "each":
            return [self.loop.run(1) for _ in range(steps)]
        begin = time.perf_counter()
        if what == "fit":
            self.model.fit(self.data, steps_per_epoch=steps, epochs=1, verbose=0, shuffle=False)
        elif what == "tutorial":
            self.model.fit(self.tutorial, steps_per_epoch=steps, epochs=1, verbose=0, shuffle=False)
        elif what == "evaluate":
            self.model.evaluate(self.test, verbose=0)
        elif what == "predict":
            self.model.predict(self.images, batch_size=self.batch, verbose=0)
        elif what == "plain":
            self.plain.run(steps)
        elif self.loop:
            self.loop.run(steps, fixed=what == "fixed")
        return time.perf_counter() - begin


def own_rows(data: Any, strategy: Any) -> Any:
    """The local part of each global batch, as fit reads it, so that the loops differ in nothing else."""
    from tfmuster.keras_compat.process import multi_worker, worker_of
    from tfmuster.keras_compat.rows import attached_pipeline

    parts = attached_pipeline(data)(*(worker_of(strategy) if multi_worker(strategy) else (0, 1)))
    return parts.map(lambda part: part.data)


def batched_elements(digits: Any, batch: int) -> Any:
    """Batches of single digits that went through a shuffle buffer of all."""
    import tensorflow as tf

    elements = tf.data.Dataset.from_tensor_slices((digits.x_train, digits.y_train))
    return elements.shuffle(len(digits.x_train)).repeat().batch(batch).prefetch(tf.data.AUTOTUNE)


class Loop:
    """A training loop as a user would write it: one tf.function call per step."""

    def __init__(self, strategy: Any, data: Any, batch: int) -> None:
        import keras
        import tensorflow as tf

        import tfmuster

        with strategy.scope():
            model = tfmuster.mnist_model("cnn", seed=0, recipe="document")
            optimizer = keras.optimizers.SGD(0.001)
            optimizer.build(model.trainable_variables)
        self.iterator = iter(data)

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
        self.first = self.run(1)

    def run(self, steps: int, *, fixed: bool = False) -> float:
        """Train for so many steps, on one batch or on new ones; the seconds."""
        begin = time.perf_counter()
        data = next(self.iterator)
        for _ in range(steps):
            loss = self.train_step(*data)
            if not fixed:
                data = next(self.iterator)
        float(loss)
        return time.perf_counter() - begin


def process(arguments: argparse.Namespace) -> None:
    """Measure what this process is asked."""
    import tfmuster
    from tfmuster.digits import datasets

    if "TF_CONFIG" in os.environ:
        strategy = tfmuster.strategy("multi_worker_mirrored", gradient_dtype=arguments.gradient_dtype)
    else:
        strategy = tfmuster.strategy("default")
    digits = datasets.load(arguments.data)
    made: dict[int, Measurements] = {}

    def measure(batch: int, what: str, steps: int = 0) -> Any:
        if batch not in made:
            made.clear()
            made[batch] = Measurements(strategy, digits, batch)
        return made[batch].measure(what, steps)

    answer_questions(measure)


def fitted(group: Group, batch: int, steps: int, data: str = "fit") -> tuple[float, float]:
    """Seconds of a step of ``fit``, and those of a call beyond its steps."""
    short, long = (max(group.ask(batch, data, n * steps)) for n in (1, 3))
    step = (long - short) / (2 * steps)
    return step, short - steps * step


def in_step(times: list[list[float]]) -> float:
    """What part of their speed workers keep if each waits for the slowest in every step."""
    mean = statistics.fmean
    return len(times) / mean(map(max, zip(*times, strict=True))) / sum(1 / mean(each) for each in times)


def row(together: Group, apart: Group, legacy: Group, batch: int, steps: int, *, repeats: int) -> list[str]:
    """One row of the table."""
    workers = len(together.processes)
    first = max(together.ask(batch, "first"))
    for group in (together, legacy):
        group.ask(batch, "fit", 2 * steps)
    together.ask(batch, "tutorial", 2 * steps)
    together.ask(batch, "evaluate")
    for group in (together, apart):
        group.ask(batch, "predict")
        group.ask(batch, "loop", 20)
    apart.ask(batch, "plain", 20)
    names = (
        "loop",
        "fit",
        "ratio",
        "tutorial",
        "around",
        "evaluate",
        "predict",
        "alone",
        "legacy",
        "its",
        "efficiency",
        "plain",
        "limit",
        "in step",
    )
    found: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(repeats):
        loop = max(together.ask(batch, "loop", steps)) / steps
        step, around = fitted(together, batch, steps)
        tutorial = fitted(together, batch, steps, "tutorial")[0] / step
        evaluate = max(together.ask(batch, "evaluate"))
        predict, alone = (max(group.ask(batch, "predict")) for group in (together, apart))
        their_step, their_around = fitted(legacy, batch, steps)
        apart_rates = [
            sum(steps * batch / seconds for seconds in apart.ask(batch, what, steps))
            for what in ("loop", "plain", "fixed")
        ]
        rate = batch * workers / step
        ours = (loop, step, step / loop, tutorial, around, evaluate, predict, alone)
        bound = in_step(apart.ask(batch, "each", steps))
        values = (*ours, their_step / step, their_around, *(rate / each for each in apart_rates), bound)
        for name, value in zip(names, values, strict=True):
            found[name].append(value)
    m = {name: statistics.median(values) for name, values in found.items()}
    return [
        *(str(batch), f"{1000 * m['loop']:.1f}", f"{1000 * m['fit']:.1f}", f"{m['ratio']:.2f}"),
        f"{m['tutorial']:.2f}",
        *(
            f"{m['around']:.2f} ({first:.2f})",
            f"{m['evaluate']:.2f}",
            f"{m['predict']:.2f} ({m['alone']:.2f})",
            f"{m['legacy']:.2f}",
            f"{m['its']:.2f}",
        ),
        *(f"{batch * workers / m['fit']:,.0f}", *(f"{m[name]:.2f}" for name in names[-4:])),
    ]


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    batches = "32,64,256,1024"
    parser.add_argument("--batches", type=lambda text: [int(n) for n in text.split(",")], default=batches)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--gradient-dtype")
    parser.add_argument("--data", default=os.environ.get("TFMUSTER_MNIST", "synthetic"))
    parser.add_argument("--process", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.process:
        process(arguments)
        return
    from support.jobs import free_addresses

    in_process = ["--process", *sys.argv[1:]]
    together = Group(in_process, arguments.workers, free_addresses(arguments.workers))
    apart = Group(in_process, arguments.workers, [])
    legacy = Group(in_process, arguments.workers, free_addresses(arguments.workers), **{LEGACY: "1"})
    print("|", " | ".join(COLUMNS), "|")
    print("|" + "---|" * len(COLUMNS))
    for batch in arguments.batches:
        # Larger batches need fewer steps for a time that can be measured.
        steps = max(20, arguments.steps * 64 // max(64, batch))
        cells = row(together, apart, legacy, batch, steps, repeats=arguments.repeats)
        print("|", " | ".join(cells), "|", flush=True)
    for group in (together, apart, legacy):
        group.end()


if __name__ == "__main__":
    main()

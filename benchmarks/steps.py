"""A training step of `fit` on two workers of one core each, over a step of one process on one core.

Usage: steps.py [--models dense,resnet50,cnn-32,cnn-64,cnn-256,cnn-1024] [--repeats 5] [--workers 2]
                [--data MNIST.npz]

Run it with PYTHONPATH=tests/python, where the package support is.

Each worker has as many rows in a step as the one process. All groups wait side by side and measure in turns;
a row has medians over the repetitions, of ratios within a repetition:

alone, ms   a step of one process: the difference of two lengths of `fit`
apart       as many processes as workers that know nothing of each other, over it: what sharing costs
C           workers that sum by tfmuster's library, over it; the default
numpy       the same where there is no C compiler
TensorFlow  with TensorFlow's collectives: communication "tensorflow"
DDP         DistributedDataParallel of PyTorch over gloo, over one process of PyTorch, if .venvs/torch is
            there; for the models dense and resnet50
peak        the memory of a worker (C; TensorFlow) at its highest, beyond that of the one process, in MB
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from process_group import Group, answer_questions

TORCH = Path(__file__).parents[1] / ".venvs" / "torch" / "bin" / "python"
#: Rows of a worker, and steps of the shorter of two calls.
MODELS = {
    "dense": (32, 6),
    "resnet50": (16, 2),
    "cnn-32": (32, 100),
    "cnn-64": (64, 100),
    "cnn-256": (256, 30),
    "cnn-1024": (1024, 8),
}
#: Those that are also measured in PyTorch.
TORCH_MODELS = ("dense", "resnet50")
#: 25 million weights.
LAYERS, UNITS = 5, 2240
WAYS = {"C": {}, "numpy": {}, "TensorFlow": {"TFMUSTER_COMMUNICATION": "tensorflow"}}


def keras_model(name: str, batch: int, strategy: Any, data: str) -> tuple[Any, Any]:
    """A compiled model, and its data set of global batches without an end."""
    import keras
    import numpy as np
    import tensorflow as tf

    import tfmuster
    from tfmuster.digits import datasets

    if name.startswith("cnn"):
        digits = datasets.load(data)
        rows = tfmuster.batches(
            digits.x_train, digits.y_train, batch, seed=0, repeated=True, strategy=strategy
        )
        with strategy.scope():
            return tfmuster.mnist_model("cnn", seed=0, recipe="document"), rows
    made = np.random.default_rng(0)
    with strategy.scope():
        keras.utils.set_random_seed(0)
        if name == "dense":
            layers = [keras.layers.Dense(UNITS, activation="relu") for _ in range(LAYERS)]
            model = keras.Sequential([keras.Input([UNITS]), *layers])
            x, y = made.random((16 * batch, UNITS), "float32"), made.random((16 * batch, UNITS), "float32")
            loss = "mean_squared_error"
        else:
            model = keras.applications.ResNet50(weights=None, input_shape=(64, 64, 3), classes=10)
            x, y = made.random((8 * batch, 64, 64, 3), "float32"), made.integers(0, 10, 8 * batch)
            loss = "sparse_categorical_crossentropy"
        model.compile(keras.optimizers.SGD(0.001), loss)
    return model, tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(batch)


def keras_process(name: str, data: str) -> None:
    """One worker, or the one process."""
    import tfmuster
    from tfmuster.keras_compat.sums.collectives import group_of

    workers = "TF_CONFIG" in os.environ
    strategy = tfmuster.strategy("multi_worker_mirrored" if workers else "default")
    if workers:
        group = group_of(strategy)
        way = "TensorFlow" if group is None else "numpy" if group.why_numpy else "C"
        assert way == os.environ["WAY"], (way, group and group.why_numpy)
    model, rows = keras_model(name, MODELS[name][0] * strategy.num_replicas_in_sync, strategy, data)

    def measure(steps: int) -> Any:
        if not steps:
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
        begin = time.perf_counter()
        model.fit(rows, steps_per_epoch=steps, epochs=1, verbose=0, shuffle=False)
        return time.perf_counter() - begin

    answer_questions(measure)


def torch_model(name: str) -> tuple[Any, Any, Any, Any]:
    """The same model in PyTorch, its loss, and data of some batches."""
    import torch
    from torch import nn

    batch = MODELS[name][0]
    if name == "dense":
        layers = (part for _ in range(LAYERS) for part in (nn.Linear(UNITS, UNITS), nn.ReLU()))
        return (
            nn.Sequential(*layers),
            nn.functional.mse_loss,
            torch.rand(16, batch, UNITS),
            torch.rand(16, batch, UNITS),
        )

    def convolution(inputs: int, outputs: int, size: int, stride: int = 1) -> list[Any]:
        return [nn.Conv2d(inputs, outputs, size, stride, size // 2), nn.BatchNorm2d(outputs)]

    class Block(nn.Module):  # type: ignore[misc]
        """Three convolutions beside a shortcut, with the strides of Keras's ResNet50."""

        def __init__(self, inputs: int, width: int, stride: int) -> None:
            super().__init__()
            first = [
                *convolution(inputs, width, 1, stride),
                nn.ReLU(),
                *convolution(width, width, 3),
                nn.ReLU(),
            ]
            self.main = nn.Sequential(*first, *convolution(width, 4 * width, 1))
            shortcut = convolution(inputs, 4 * width, 1, stride) if inputs != 4 * width else []
            self.shortcut = nn.Sequential(*shortcut)

        def forward(self, x: Any) -> Any:
            return torch.relu(self.main(x) + self.shortcut(x))

    layers = [*convolution(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(blocks):
            layers.append(Block(inputs, width, 1 if block else stride))
            inputs = 4 * width
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 10)]
    x, y = torch.rand(8, batch, 3, 64, 64), torch.randint(0, 10, (8, batch))
    return nn.Sequential(*layers), nn.functional.cross_entropy, x, y


def torch_process(name: str) -> None:
    """A model in PyTorch: a worker under DistributedDataParallel, or the one process."""
    import torch
    from torch import distributed, nn

    torch.set_num_threads(1)
    torch.manual_seed(0)
    model, loss, x, y = torch_model(name)
    if "TF_CONFIG" in os.environ:
        place = json.loads(os.environ["TF_CONFIG"])
        addresses = place["cluster"]["worker"]
        method, rank = f"tcp://{addresses[0]}", place["task"]["index"]
        distributed.init_process_group("gloo", init_method=method, rank=rank, world_size=len(addresses))
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.001)

    def measure(steps: int) -> float:
        begin = time.perf_counter()
        for step in range(steps):
            optimizer.zero_grad()
            loss(model(x[step % len(x)]), y[step % len(y)]).backward()
            optimizer.step()
        return time.perf_counter() - begin

    answer_questions(measure)


def step_seconds(group: Group, steps: int) -> float:
    """A step: the difference of two lengths, which leaves out what a call costs beyond its steps."""
    short, long = (max(group.ask(count)) for count in (steps, 3 * steps))
    return (long - short) / (2 * steps)


def row(name: str, arguments: argparse.Namespace) -> list[str]:
    """One row of the table."""
    from support.jobs import free_addresses

    given = ["--data", arguments.data, "--process", name]
    with tempfile.TemporaryDirectory() as empty:
        Path(empty, "taskset").symlink_to("/usr/bin/taskset")
        without_compiler = {"PATH": empty, "XDG_CACHE_HOME": empty, "TMPDIR": empty}
        groups = {"alone": Group(given, 1, []), "apart": Group(given, arguments.workers, [])}
        for way, variables in WAYS.items():
            more = {**variables, **(without_compiler if way == "numpy" else {}), "WAY": way}
            groups[way] = Group(given, arguments.workers, free_addresses(arguments.workers), **more)
        if name in TORCH_MODELS and TORCH.exists():
            groups["torch alone"] = Group(given, 1, [], python=str(TORCH), WAY="torch")
            addresses = free_addresses(arguments.workers)
            groups["DDP"] = Group(given, arguments.workers, addresses, python=str(TORCH), WAY="torch")
        steps = MODELS[name][1]
        for group in groups.values():
            group.ask(3 * steps)  # traces, and finds the steps of an execution
            group.ask(steps)
        found: dict[str, list[float]] = {way: [] for way in groups}
        for turn in range(arguments.repeats):
            for way in groups if turn % 2 else reversed(groups):
                found[way].append(step_seconds(groups[way], steps))
        ratio = {
            way: statistics.median(
                a / b for a, b in zip(times, found["torch alone" if way == "DDP" else "alone"], strict=True)
            )
            for way, times in found.items()
        }
        peak = {way: max(groups[way].ask(0)) for way in ("alone", "C", "TensorFlow")}
        for group in groups.values():
            group.end()
    more = [f"{peak[way] - peak['alone']:+.0f}" for way in ("C", "TensorFlow")]
    return [
        name,
        f"{1000 * statistics.median(found['alone']):.1f}",
        *(f"{ratio[way]:.2f}" for way in ("apart", *WAYS)),
        f"{ratio['DDP']:.2f}" if "DDP" in ratio else "",
        "; ".join(more),
    ]


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", type=lambda text: text.split(","), default=",".join(MODELS))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--data", default=os.environ.get("TFMUSTER_MNIST", "synthetic"))
    parser.add_argument("--process", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.process:
        torch = os.environ.get("WAY") == "torch"
        torch_process(arguments.process) if torch else keras_process(arguments.process, arguments.data)
        return
    columns = ["step", "alone, ms", "apart", *WAYS, "DDP", "peak, MB (C; TensorFlow)"]
    print("|", " | ".join(columns), "|\n|" + "---|" * len(columns))
    for name in arguments.models:
        print("|", " | ".join(row(name, arguments)), "|", flush=True)


if __name__ == "__main__":
    main()

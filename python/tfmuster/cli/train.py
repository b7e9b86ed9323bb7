"""``tfmuster train``: train a model in this process, which may be one worker of several."""

from __future__ import annotations

import os
from typing import Any

import click

from ..environment import START_TIMEOUT_VARIABLE
from ..errors import ClusterError
from .cluster_options import cluster_options, read_cluster

_MODELS = ("cnn", "deep_cnn", "mlp", "softmax")
_COUNT = click.IntRange(min=1)


def _steps_or_epoch(_: click.Context, option: click.Parameter, value: str | None) -> int | str | None:
    if value is None or value == "epoch":
        return value
    if value.isascii() and value.isdigit() and int(value) > 0:
        return int(value)
    raise click.BadParameter(
        f"{value!r} is neither a number of steps of at least 1 nor 'epoch'.", param=option
    )


@click.group("train")
def command() -> None:
    """Train a model: alone, or as one worker of several."""


@command.command("mnist")
@click.option("--model", type=click.Choice(_MODELS), default="cnn", show_default=True)
@click.option(
    "--dataset",
    metavar="mnist|synthetic|PATH",
    help="An .npz file or a folder of IDX files; `synthetic` for generated digits. Default: MNIST from "
    "TFMUSTER_MNIST, Keras's cache or a download.",
)
@click.option("--strategy", metavar="NAME", help="Default: what the cluster is for, else none.")
@click.option("--batch-size", type=_COUNT, help="Images per replica; the global batch is printed.")
@click.option("--epochs", type=_COUNT, help="How often to go through --steps-per-epoch steps.")
@click.option("--steps-per-epoch", type=click.IntRange(min=0), help="0 for the whole training set.")
@click.option("--validation-split", type=click.FloatRange(0, 1, max_open=True), help="Share kept.")
@click.option("--shuffle/--no-shuffle", default=None, help="An order of its own for each epoch.")
@click.option("--optimizer", metavar="NAME", help="A Keras name, such as sgd, adam, rmsprop.")
@click.option("--learning-rate", type=click.FloatRange(0, min_open=True), help="Step size.")
@click.option("--scale-lr", is_flag=True, help="Times the number of workers, after a warm-up.")
@click.option(
    "--gradient-dtype",
    type=click.Choice(["float32", "bfloat16", "float16"]),
    help="As what gradients travel.",
)
@click.option("--dropout/--no-dropout", default=True, show_default=True, help="For mlp.")
@click.option("--initial-weights", type=click.Choice(["random_normal", "zeros"]), help="For softmax.")
@click.option("--gradient-accumulation-steps", type=_COUNT, help="Update the weights once in so many steps.")
@click.option(
    "--steps-per-execution", type=_COUNT, help="Default on several workers: as many as pay; else 1."
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--save", type=click.Path(), metavar="PATH", help="Save the model: .keras, .h5 or a folder.")
@click.option("--history", type=click.Path(dir_okay=False), metavar="FILE", help="Write the history as JSON.")
@click.option(
    "--checkpoint-every",
    metavar="STEPS|epoch",
    callback=_steps_or_epoch,
    help="Write checkpoints and resume.",
)
@click.option("--updates", type=click.Choice(["async", "sync"]), help="Of parameter servers. Default: async.")
@click.option("--replicas-to-aggregate", metavar="K", type=_COUNT, help="sync: take the first K gradients.")
@click.option(
    "--min-shard-bytes",
    metavar="BYTES",
    type=_COUNT,
    help="Cut weights over the parameter servers into pieces of at least so many bytes. Default: 262144.",
)
@click.option(
    "--start-timeout",
    metavar="SECONDS",
    type=click.FloatRange(0, min_open=True),
    help="How long to wait for everyone in the cluster. Default: TFMUSTER_START_TIMEOUT, else 60.",
)
@click.option("--quiet", is_flag=True, help="Print nothing.")
@click.option("--verbose", is_flag=True, help="Every worker says which rows it reads.")
@cluster_options
def mnist(
    *,
    start_timeout: float | None,
    quiet: bool,
    verbose: bool,
    cluster_file: str | None,
    task_type: str | None,
    task_index: str | None,
    **options: Any,
) -> None:
    """Train on MNIST. What is left out has the value of the model's source document.

    \b
    tfmuster train mnist --model mlp
    tfmuster launch -n 2 -- tfmuster train mnist --optimizer adam --steps-per-epoch 0
    tfmuster train mnist --cluster cluster.json --type worker --index 2
    tfmuster launch --ps 1 --workers 3 -- tfmuster train mnist --model softmax --updates sync
    """
    jobs = {job: options.pop(job) for job in ("worker", "ps", "chief", "evaluator")}
    if cluster_file is not None or any(jobs.values()) or task_type is not None or task_index is not None:
        _join(cluster_file=cluster_file, task_type=task_type, task_index=task_index, **jobs)
    if start_timeout is not None:
        os.environ[START_TIMEOUT_VARIABLE] = str(start_timeout)
    from ..digits.train import train_mnist

    train_mnist(verbose=0 if quiet else 1 + verbose, **options)


def _join(**cluster_arguments: Any) -> None:
    """Put the TF_CONFIG of the task that the options name in force."""
    from ..cluster.tf_config import use_tf_config

    _, task = read_cluster(**cluster_arguments)
    if task is None:
        raise ClusterError(
            "This process has to know which task of the cluster it is.",
            fix="add --type and --index, such as --type worker --index 0",
            findings=[],
        )
    use_tf_config(task)

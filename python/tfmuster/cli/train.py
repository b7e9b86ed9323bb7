"""``tfmuster train``: train a model in this process, which may be one worker of several."""

from __future__ import annotations

import os
from typing import Any

import click

from ..environment import START_TIMEOUT_VARIABLE
from .cluster_options import cluster_options, join_cluster
from .value_types import Number, OneOf, WholeNumber, refused

_MODELS = ("cnn", "deep_cnn", "mlp", "softmax")
_COUNT = WholeNumber(min=1)


def _steps_or_epoch(_: click.Context, option: click.Parameter, value: str | None) -> int | str | None:
    if value is None or value == "epoch":
        return value
    if value.isascii() and value.isdigit() and int(value) > 0:
        return int(value)
    raise refused(option, "a whole number of steps of at least 1, or epoch", value)


@click.group("train")
def command() -> None:
    """Train a model, alone or as one worker of several."""


@command.command("mnist")
@click.option(
    "--recipe",
    type=OneOf(["quick", "document"]),
    default="quick",
    show_default=True,
    help="Take the defaults of the other options from this recipe: quick trains in well under a minute to a "
    "good result, document has the numbers of the model's source document.",
)
@click.option("--model", type=OneOf(_MODELS), default="cnn", show_default=True, help="Train this model.")
@click.option(
    "--dataset",
    metavar="mnist|synthetic|PATH",
    help="Train on an .npz file, a folder of IDX files, or `synthetic`, generated "
    "digits. Default: MNIST from TFMUSTER_MNIST, Keras's cache or a download.",
)
@click.option(
    "--strategy", metavar="NAME", help="Use this strategy. Default: the one for the cluster, else none."
)
@click.option(
    "--batch-size",
    metavar="N",
    type=_COUNT,
    help="Train on this many images per replica and step. Default: that of the recipe.",
)
@click.option(
    "--epochs",
    metavar="N",
    type=_COUNT,
    help="Train for this many epochs of --steps-per-epoch steps. Default: that of the recipe.",
)
@click.option(
    "--steps-per-epoch",
    metavar="N",
    type=WholeNumber(min=0),
    help="Make an epoch of this many steps; 0: of all data. Default: that of the recipe.",
)
@click.option(
    "--validation-split",
    metavar="FRACTION",
    type=Number(0, 1, max_open=True),
    help="Use this fraction of the training set for validation. Default: that of the recipe.",
)
@click.option(
    "--shuffle/--no-shuffle",
    default=None,
    help="Use a different order of the data in each epoch. Default: --shuffle.",
)
@click.option(
    "--optimizer",
    metavar="NAME",
    help="Use this optimizer, by its Keras name, such as sgd, adam, rmsprop. Default: that of the recipe.",
)
@click.option(
    "--learning-rate",
    metavar="RATE",
    type=Number(0, min_open=True),
    help="Set the learning rate. Default: that of the recipe.",
)
@click.option(
    "--scale-lr",
    is_flag=True,
    help="Multiply the learning rate by the number of workers, after a warm-up. Default: keep it.",
)
@click.option(
    "--gradient-dtype",
    type=OneOf(["float32", "bfloat16", "float16"]),
    help="Send gradients to the other workers in this data type. Default: the type they are computed in.",
)
@click.option("--dropout/--no-dropout", default=True, show_default=True, help="Use dropout in mlp.")
@click.option(
    "--initial-weights",
    type=OneOf(["random_normal", "zeros"]),
    help="Begin softmax with these weights. Default: those of the recipe.",
)
@click.option(
    "--gradient-accumulation-steps",
    metavar="N",
    type=_COUNT,
    help="Update the weights every N steps. Default: 1.",
)
@click.option(
    "--steps-per-execution",
    metavar="N",
    type=_COUNT,
    help="Run this many steps per call of TensorFlow. Default: chosen automatically on "
    "several workers, else 1.",
)
@click.option(
    "--seed",
    metavar="N",
    type=WholeNumber(min=0),
    default=0,
    show_default=True,
    help="Seed the random number generators.",
)
@click.option(
    "--save",
    type=click.Path(),
    metavar="PATH",
    help="Save the model as .keras, .h5 or a folder. Default: do not save it.",
)
@click.option(
    "--history",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write the history as JSON. Default: do not write it.",
)
@click.option(
    "--checkpoint-every",
    metavar="STEPS|epoch",
    callback=_steps_or_epoch,
    help="Write checkpoints this often, and resume from the last one. Default: epoch in "
    "a job with restarts or an evaluator, else only on a shutdown signal.",
)
@click.option(
    "--updates",
    type=OneOf(["async", "sync"]),
    help="Let parameter servers update in this way. Default: async.",
)
@click.option(
    "--replicas-to-aggregate",
    metavar="N",
    type=_COUNT,
    help="With --updates sync: use the first N gradients of a step. Default: all.",
)
@click.option(
    "--min-shard-bytes",
    metavar="BYTES",
    type=_COUNT,
    help="Split weights over parameter servers into pieces of at least this size. Default: 262144.",
)
@click.option(
    "--start-timeout",
    metavar="SECONDS",
    type=Number(0, min_open=True),
    help="Wait this long for all tasks to arrive. Default: TFMUSTER_START_TIMEOUT, else 60.",
)
@click.option("--quiet", is_flag=True, help="Print nothing. Default: print a line per epoch.")
@click.option("--verbose", is_flag=True, help="Also print which rows each worker reads. Default: do not.")
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
    """Train on MNIST. The recipe of the model has the default values of options.

    \b
    tfmuster train mnist --model mlp
    tfmuster launch -n 2 -- tfmuster train mnist --steps-per-epoch 0
    tfmuster train mnist --cluster cluster.json --type worker --index 2
    tfmuster launch --ps 1 --workers 3 -- tfmuster train mnist --model softmax --updates sync
    """
    jobs = {job: options.pop(job) for job in ("worker", "ps", "chief", "evaluator")}
    if cluster_file is not None or any(jobs.values()) or task_type is not None or task_index is not None:
        join_cluster(cluster_file=cluster_file, task_type=task_type, task_index=task_index, **jobs)
    if start_timeout is not None:
        os.environ[START_TIMEOUT_VARIABLE] = str(start_timeout)
    from ..digits.train import train_mnist

    train_mnist(verbose=0 if quiet else 1 + verbose, **options)

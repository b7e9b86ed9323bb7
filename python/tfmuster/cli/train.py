"""``tfmuster train``: train a model in this process, which may be one worker of several."""

from __future__ import annotations

import os
from typing import Any

import click

from ..cluster.rules import JOBS
from ..environment import START_TIMEOUT_VARIABLE
from .cluster import cluster_options, join_cluster
from .parameters import Number, OneOf, WholeNumber, option, refused, row_option

_MODELS = ("cnn", "deep_cnn", "mlp", "softmax")
_COUNT = WholeNumber(min=1)


def _steps_or_epoch(_: click.Context, option: click.Parameter, value: str | None) -> int | str | None:
    if value is None or value == "epoch":
        return value
    if value.isascii() and value.isdigit() and int(value) > 0:
        return int(value)
    raise refused(option, "a whole number of steps of at least 1, or epoch", value)


@click.group("train")
def train() -> None:
    """Train a model, alone or as one worker of several."""


@train.command("mnist")
@option(
    "--recipe",
    "Take the defaults of the other options from this recipe: quick trains in well under a minute to a "
    "good result, document has the numbers of the model's source document.",
    OneOf(["quick", "document"]),
    default="quick",
)
@option("--model", "Train this model.", OneOf(_MODELS), default="cnn")
@option(
    "--dataset mnist|synthetic|PATH",
    "Train on an .npz file, a folder of IDX files, or `synthetic`, generated "
    "digits. Default: MNIST from TFMUSTER_MNIST, Keras's cache or a download.",
)
@option("--strategy NAME", "Use this strategy. Default: the one for the cluster, else none.")
@option(
    "--batch-size N",
    "Train on this many images per replica and step. Default: that of the recipe.",
    _COUNT,
)
@option(
    "--epochs N",
    "Train for this many epochs of --steps-per-epoch steps. Default: that of the recipe.",
    _COUNT,
)
@option(
    "--steps-per-epoch N",
    "Run this many steps per epoch; 0 uses all data. Default: that of the recipe.",
    WholeNumber(min=0),
)
@option(
    "--validation-split FRACTION",
    "Use this fraction of the training set for validation. Default: that of the recipe.",
    Number(0, 1, max_open=True),
)
@option(
    "--shuffle/--no-shuffle",
    "Use a different order of the data in each epoch. Default: --shuffle.",
    default=None,
)
@option(
    "--optimizer NAME",
    "Use this optimizer, by its Keras name, such as sgd, adam, rmsprop. Default: that of the recipe.",
)
@option(
    "--learning-rate RATE",
    "Set the learning rate. Default: that of the recipe.",
    Number(0, min_open=True),
)
@option(
    "--scale-lr",
    "Multiply the learning rate by the number of workers, after a warm-up. Default: keep it.",
)
@option(
    "--gradient-dtype",
    "Send gradients to the other workers in this data type. Default: the type they are computed in.",
    OneOf(["float32", "bfloat16", "float16"]),
)
@option("--dropout/--no-dropout", "Use dropout in mlp.", default=True)
@option(
    "--initial-weights",
    "Begin softmax with these weights. Default: those of the recipe.",
    OneOf(["random_normal", "zeros"]),
)
@option("--gradient-accumulation-steps N", "Update the weights every N steps. Default: 1.", _COUNT)
@option(
    "--steps-per-execution N",
    "Run this many steps per call of TensorFlow. Default: chosen automatically on several workers, else 1.",
    _COUNT,
)
@option("--seed N", "Seed the random number generators.", WholeNumber(min=0), default=0)
@option("--save PATH", "Save the model as .keras, .h5 or a folder. Default: do not save it.", click.Path())
@option(
    "--history FILE",
    "Write the history as JSON. Default: do not write it.",
    click.Path(dir_okay=False),
)
@option(
    "--checkpoint-every STEPS|epoch",
    "Write checkpoints this often, and resume from the last one. Default: epoch in "
    "a job with restarts or an evaluator, else only on a shutdown signal.",
    callback=_steps_or_epoch,
)
@option("--updates", "Let parameter servers update in this way. Default: async.", OneOf(["async", "sync"]))
@option(
    "--replicas-to-aggregate N",
    "With --updates sync: use the first N gradients of a step. Default: all.",
    _COUNT,
)
@option(
    "--min-shard-bytes BYTES",
    "Split weights over parameter servers into pieces of at least this size. Default: 262144.",
    _COUNT,
)
@row_option("start_timeout")
@option("--quiet", "Print nothing. Default: print a line per epoch.")
@option("--verbose", "Also print which rows each worker reads. Default: do not.")
@cluster_options
def mnist(*, start_timeout: float | None, quiet: bool, verbose: bool, **options: Any) -> None:
    """Train on MNIST. The recipe of the model has the default values of options.

    \b
    tfmuster train mnist --model mlp
    tfmuster launch -n 2 -- tfmuster train mnist --steps-per-epoch 0
    tfmuster train mnist --cluster cluster.json --type worker --index 2
    tfmuster launch --ps 1 --workers 3 -- tfmuster train mnist --model softmax --updates sync
    """
    cluster = {name: options.pop(name) for name in (*JOBS, "cluster_file", "task_type", "task_index")}
    if any(value not in (None, ()) for value in cluster.values()):
        join_cluster(**cluster)
    if start_timeout is not None:
        os.environ[START_TIMEOUT_VARIABLE] = str(start_timeout)
    from ..digits.train import train_mnist

    train_mnist(verbose=0 if quiet else 1 + verbose, **options)

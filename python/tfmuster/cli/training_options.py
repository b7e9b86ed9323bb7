"""Options of ``tfmuster launch`` that say what the workers of a job get, and how they train."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..environment import LARGEST_SEED
from .value_types import Number, WholeNumber, refused

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_Command = TypeVar("_Command", bound="Callable[..., Any]")


def training_options(command: _Command) -> _Command:
    """Add the options about training."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def take_training(given: dict[str, Any], run_dir: Path | None) -> dict[str, Any]:
    """Remove the values of these options from ``given``, and return them as fields of a ``Job``."""
    from ..launch.job import seed_for

    return {
        "env": _variables(given.pop("env")),
        "seed": seed_for(given.pop("seed"), run_dir),
        "gpus_per_worker": given.pop("gpus_per_worker"),
        "keras_compat": not given.pop("no_keras_compat"),
        **{name: given.pop(name) for name in ("independent", "distribute", "scale_batch", "allow_nested")},
        "stall_timeout": given.pop("stall_timeout"),
        "grace": given.pop("grace"),
        "notice_command": given.pop("notice_command"),
    }


def _variables(texts: tuple[str, ...]) -> dict[str, str]:
    variables = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals and name in os.environ:
            value = os.environ[name]
        elif not (equals and name):
            raise refused("--env", "NAME=VALUE, or the name of a variable that is set here", text)
        variables[name] = value
    return variables


_OPTIONS = (
    click.option(
        "--env",
        metavar="NAME[=VALUE]",
        multiple=True,
        help="Set a variable for every worker. Without =VALUE, its value here is used. "
        "Repeatable. Default: none.",
    ),
    click.option(
        "--seed",
        metavar="N",
        type=WholeNumber(0, LARGEST_SEED),
        help="Seed the random number generators of every worker. Default: TFMUSTER_SEED, else drawn.",
    ),
    click.option(
        "--distribute",
        is_flag=True,
        help="Train a program that makes no strategy on all workers: its batches are those "
        "of all workers. Default: refuse it.",
    ),
    click.option(
        "--scale-batch",
        is_flag=True,
        help="With --distribute: multiply the batch size of fit() by the number of workers. "
        "Default: keep it.",
    ),
    click.option(
        "--independent", is_flag=True, help="Let each worker train a model of its own. Default: refuse that."
    ),
    click.option(
        "--allow-nested",
        is_flag=True,
        help="Let a worker of another job launch this one. Default: refuse that.",
    ),
    click.option(
        "--gpus-per-worker",
        metavar="N",
        type=WholeNumber(min=0),
        help="Show each worker this many GPUs; 0 hides all. Default: 1 if there are as many GPUs as workers.",
    ),
    click.option(
        "--stall-timeout",
        metavar="SECONDS",
        type=Number(min=0),
        help="End the job if workers wait this long for one that does not move; 0: never. "
        "Default: TFMUSTER_STALL_TIMEOUT, else 300.",
    ),
    click.option(
        "--grace",
        metavar="SECONDS",
        type=Number(min=0, min_open=True),
        help="Let workers take this long to write a checkpoint after a shutdown signal. "
        "Default: TFMUSTER_GRACE, else 30.",
    ),
    click.option(
        "--notice-command",
        metavar="COMMAND",
        help="Write a checkpoint and end the job when this shell command, run every 5 s, "
        "succeeds on a worker's machine, because its spot instance is about to be "
        "reclaimed. Default: none.",
    ),
    click.option("--no-keras-compat", is_flag=True, help="Do not patch Keras 3. Default: patch it."),
)

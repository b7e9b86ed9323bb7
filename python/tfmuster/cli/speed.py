"""``tfmuster speed``: run short trials, and recommend settings."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import click

from .parameters import ENDS_AT_PROGRAM, WholeNumber, option, program_argument, refused

if TYPE_CHECKING:
    from ..diagnostics.tuning import Trial

_BATCHES = (32, 64, 128, 256, 512)
_COLUMNS = "{:>10}  {:<10} {:>9} {:>8}  {:>12}  {:>10}  {:>13}  {}"
_WORKERS = ("-n", "-np", "--workers")
_WORKERS_AND_NUMBER = re.compile(r"-np?\d+$|--workers=")


def _numbers(_: click.Context, option: click.Parameter, text: str | None) -> list[int]:
    try:
        numbers = [int(number) for number in text.split(",")] if text else []
    except ValueError:
        numbers = [0]
    if any(number < 1 for number in numbers):
        raise refused(option, "whole numbers of at least 1, with commas between them", text)
    return numbers


class _Speed(click.Command):
    """A command that also accepts its options after ``mnist``, and -n after a script."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args[:1] == ["mnist"]:
            args = [*args[1:], "mnist"]
        elif len(args) > 1 and not args[0].startswith("-"):
            taken = 2 if args[1] in _WORKERS else 1 if _WORKERS_AND_NUMBER.match(args[1]) else 0
            args = [*args[1 : taken + 1], args[0], *args[taken + 1 :]]
        return super().parse_args(ctx, args)


@click.command("speed", cls=_Speed, context_settings=ENDS_AT_PROGRAM)
@option("-n, -np, --workers N", "Start this many workers.", WholeNumber(min=2), default=2)
@option(
    "--batch N,N,...",
    "Try these numbers of images per worker. Default for mnist: 32,64,128,256,512; for a script: none.",
    name="batches",
    callback=_numbers,
)
@option("--steps N", "Measure this many steps per trial.", WholeNumber(min=10), default=60)
@option("--model NAME", "For mnist: train this model: cnn, deep_cnn, mlp or softmax.", default="cnn")
@option("--dataset PATH", "For mnist: use this file or folder of digits.", default="synthetic")
@program_argument("mnist|SCRIPT [ARGUMENT]...")
def speed(
    *, workers: int, batches: list[int], steps: int, model: str, dataset: str, program: tuple[str, ...]
) -> None:
    """Find settings that make a training fast on several workers of this machine, by short trials.

    {batch} among the arguments of a script stands for the images per worker. A trial ends after its steps, so
    the script does not run its code after the training. Arguments after a script belong to the script, except
    -n N.

    \b
    tfmuster speed mnist -n 2
    tfmuster speed -n 2 --batch 32,128,512 train.py --batch-size {batch}
    """
    from ..diagnostics.tuning import BATCH, advice, tune

    if program == ("mnist",):
        dataset = dataset if dataset in ("synthetic", "mnist") else os.path.abspath(dataset)
        options = ["--model", model, "--dataset", dataset, "--batch-size", BATCH]
        program = ("tfmuster", "train", "mnist", *options, "--epochs", "1000", "--steps-per-epoch", "0")
        batches = batches or list(_BATCHES)
    unit = "images/s" if batches else "steps/s"
    settings = ("per worker", "gradients", "steps/call", "threads")
    click.echo(_COLUMNS.format(*settings, unit, "efficiency", "communication", "waiting"))

    def show(trial: Trial) -> None:
        setting = trial.setting
        click.echo(
            _COLUMNS.format(
                setting.batch or "-",
                setting.gradient_dtype,
                setting.steps_per_execution or "automatic",
                setting.threads or "all",
                f"{trial.speed:,.1f}" if trial.speed < 100 else f"{trial.speed:,.0f}",
                f"{trial.efficiency:.2f}",
                f"{trial.communication:.0%}",
                f"{trial.waiting:.0%} for {trial.waits_for}" if trial.waits_for else "-",
            )
        )

    trials = tune(program, workers, batches=batches, steps=steps, on_trial=show)
    click.echo("\n" + advice(trials))

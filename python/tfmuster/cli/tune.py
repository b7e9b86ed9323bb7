"""``tfmuster tune``: short trials, a table, and what to use."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ..diagnostics.tuning import Trial

_BATCHES = (32, 64, 128, 256, 512)
_COLUMNS = "{:>10}  {:<10} {:>9} {:>8}  {:>12}  {:>10}  {:>13}"


def _numbers(_: click.Context, __: click.Parameter, text: str | None) -> list[int]:
    try:
        numbers = [int(number) for number in text.split(",")] if text else []
    except ValueError:
        numbers = [0]
    if any(number < 1 for number in numbers):
        raise click.BadParameter("whole numbers of at least 1, with commas between them")
    return numbers


class _Tune(click.Command):
    """Options behind ``mnist``, which has none of its own, are meant too, and the workers behind a script."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args[:1] == ["mnist"]:
            args = [*args[1:], "mnist"]
        elif len(args) > 1 and not args[0].startswith("-"):
            taken = 2 if args[1] in _WORKERS else 1 if _WORKERS_AND_NUMBER.match(args[1]) else 0
            args = [*args[1 : taken + 1], args[0], *args[taken + 1 :]]
        return super().parse_args(ctx, args)


_WORKERS = ("-n", "-np", "--workers")
_WORKERS_AND_NUMBER = re.compile(r"-np?\d+$|--workers=")


@click.command("tune", cls=_Tune, context_settings={"allow_interspersed_args": False})
@click.option("-n", "-np", "--workers", type=click.IntRange(min=2), default=2, show_default=True)
@click.option("--batch", "batches", callback=_numbers, metavar="N,N,...", help="Images per worker to try.")
@click.option(
    "--steps", type=click.IntRange(min=10), default=60, show_default=True, help="Measured per trial."
)
@click.option("--model", default="cnn", show_default=True, help="For mnist: cnn, deep_cnn, mlp or softmax.")
@click.option(
    "--dataset", default="synthetic", show_default=True, help="For mnist: a file or folder of digits."
)
@click.argument(
    "program", metavar="mnist|SCRIPT [ARGUMENT]...", nargs=-1, required=True, type=click.UNPROCESSED
)
def command(
    *,
    workers: int,
    batches: list[int],
    steps: int,
    model: str,
    dataset: str,
    program: tuple[str, ...],
) -> None:
    """Find settings that make a training fast on the workers of this machine, by short trials of it.

    {batch} among a script's arguments stands for the images per worker. A trial ends after its steps; what
    the script does after its training is left out. What follows a script is the script's, but for -n N.

    \b
    tfmuster tune mnist -n 2
    tfmuster tune -n 2 --batch 32,128,512 train.py --batch-size {batch}
    """
    from ..diagnostics.tuning import BATCH, recommend, tune

    if program == ("mnist",):
        dataset = dataset if dataset in ("synthetic", "mnist") else os.path.abspath(dataset)
        options = ["--model", model, "--dataset", dataset, "--batch-size", BATCH]
        program = ("tfmuster", "train", "mnist", *options, "--epochs", "1000", "--steps-per-epoch", "0")
        batches = batches or list(_BATCHES)
    unit = "images/s" if batches else "steps/s"
    headings = ("per worker", "gradients", "steps/call", "threads", unit, "efficiency", "communication")
    click.echo(_COLUMNS.format(*headings))

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
            )
        )

    trials = tune(program, workers, batches=batches, steps=steps, on_trial=show)
    click.echo("\n" + advice(trials, recommend(trials)))


def advice(trials: list[Trial], best: Trial) -> str:
    """The recommendation in plain sentences."""
    setting = best.setting
    lines = [f"Use {setting}."]
    if setting.gradient_dtype != "float32":
        lines.append(f"Gradients: strategy(..., gradient_dtype={setting.gradient_dtype!r}).")
    gain = best.workers * best.efficiency
    if gain < 1.1:
        lines.append(
            f"{best.workers} workers do {gain:.2f} times the work of one: here more workers do not pay. "
            "A larger batch, a larger model or machines of their own would change that."
        )
    else:
        lines.append(f"{best.workers} workers then do {gain:.2f} times the work of one of them.")
    smallest = min((trial.setting.batch for trial in trials if trial.setting.batch), default=None)
    if setting.batch and smallest and setting.batch > smallest:
        lines.append(
            "With a larger global batch, raise the learning rate by the same factor and warm it up over the "
            "first epochs (the linear rule of Goyal et al. 2017, arXiv:1706.02677), and look at the accuracy."
        )
    return "\n".join(lines)

"""``tfmuster tune``: short trials, a table, and what to use."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ..tuning import Trial

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


@click.command("tune", context_settings={"allow_interspersed_args": False})
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
    r"""Find settings that make a training fast on the workers of this machine, by short trials of it.

    {batch} among a script's arguments stands for the images per worker. A trial ends after its steps; what
    the script does after its training is left out.

    \b
    tfmuster tune -n 2 mnist
    tfmuster tune -n 2 --batch 32,128,512 train.py --batch-size {batch}
    """
    from ..tuning import BATCH, recommend, tune

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
    words = [f"gradients as {setting.gradient_dtype}"]
    if setting.batch:
        words.insert(0, f"{setting.batch} images per worker")
    if setting.steps_per_execution:
        words.append(f"steps_per_execution={setting.steps_per_execution}")
    if setting.threads:
        words.append(f"TF_NUM_INTRAOP_THREADS={setting.threads}")
    lines = [f"Use {', '.join(words)}."]
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

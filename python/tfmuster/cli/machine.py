"""``tfmuster doctor``, ``strategies``, ``test`` and ``token``: what is here, and whether it works."""

from __future__ import annotations

import click

from ..errors import EXIT_DONE, EXIT_WORKER_FAILED
from ..system.terminal_text import json_text
from .parameters import Number, option


@click.command("doctor")
@option("--json", "Print JSON. Default: text.", name="as_json")
@option(
    "--devices/--no-devices",
    "Start TensorFlow to list its devices, which takes some seconds. Default: --devices.",
    default=True,
)
def doctor(*, as_json: bool, devices: bool) -> None:
    """Show what is installed here, for yourself or for an issue."""
    from ..diagnostics.doctor import doctor as report_on_machine

    report = report_on_machine(devices=devices)
    if as_json:
        click.echo(json_text(report))
        return
    notes = report.pop("notes")
    for section, value in report.items():
        _print(section, value)
    click.echo()
    for note in notes:
        click.echo(click.wrap_text(note, 100, initial_indent="* ", subsequent_indent="  "))


def _print(label: str, value: object, indent: str = "") -> None:
    if isinstance(value, dict) and value:
        click.echo(f"{indent}{label}:")
        for name, entry in value.items():
            _print(name, entry, indent + "  ")
    else:
        shown = ", ".join(value) if isinstance(value, list) else value
        click.echo(f"{indent}{label + ':':<14} {'none' if shown in (None, {}) else shown}")


@click.command("strategies")
@option("--json", "Print JSON. Default: a table.", name="as_json")
def strategies(*, as_json: bool) -> None:
    """Show what each strategy trains with, and whether it works on this machine."""
    from ..strategies.by_name import strategy_table
    from ..system.tensorflow_import import HOW_TO_INSTALL, is_installed

    table = strategy_table()
    if as_json:
        click.echo(json_text(table))
        return
    click.echo(f"{'strategy':<23}{'Keras 3':<11}{'own loop':<11}{'here':<6}")
    for row in table:
        here = "yes" if row["here"] else "no"
        click.echo(f"{row['strategy']:<23}{row['fit']:<11}{row['custom_loop']:<11}{here:<6}{row['why']}")
    if not is_installed("tensorflow"):
        click.echo(f"\nTo install TensorFlow: {HOW_TO_INSTALL}.")


@click.command("test")
@option("--timeout SECONDS", "Stop the test after this time.", Number(0, min_open=True), default=60.0)
def test(*, timeout: float) -> int:
    """Train on two workers of this machine for a moment, and say "You are ready" or what to fix."""
    from ..diagnostics.selftest import selftest, verdict

    report = selftest(timeout=timeout, tell=True)
    for line in verdict(report):
        click.echo(line)
    return EXIT_DONE if report["ready"] else EXIT_WORKER_FAILED


@click.command("token")
def token() -> None:
    """Make a secret for workers that you start yourself, in a file that only you can read.

    Every worker that finds it in your home directory uses it, unless TFMUSTER_TOKEN is set: other users can
    then neither take a worker's place nor end the start. A job of `tfmuster launch` has a secret of its own.
    """
    from ..rendezvous.task.token_file import make_token_file

    path = make_token_file()
    click.echo(f"Workers that you start yourself use the secret in {path}.")
    click.echo(f"On machines with another home directory, copy it first: scp -p {path} HOST:{path}")

"""``tfmuster strategies``: show what each strategy does, and which ones work here."""

from __future__ import annotations

import click


@click.command("strategies")
@click.option("--json", "as_json", is_flag=True, help="Print JSON. Default: a table.")
def command(*, as_json: bool) -> None:
    """Show what each strategy trains with, and whether it works on this machine."""
    from ..strategies.by_name import strategy_table
    from ..system.tensorflow_import import HOW_TO_INSTALL, is_installed
    from ..system.terminal_text import json_text

    table = strategy_table()
    if as_json:
        click.echo(json_text(table))
        return
    click.echo(f"{'strategy':<23}{'Keras 3':<11}{'own loop':<11}{'here':<6}")
    for row in table:
        here = "yes" if row["here"] else "no"
        line = f"{row['strategy']:<23}{row['fit']:<11}{row['custom_loop']:<11}{here:<6}{row['why']}"
        click.echo(line)
    if not is_installed("tensorflow"):
        click.echo(f"\nTo install TensorFlow: {HOW_TO_INSTALL}.")

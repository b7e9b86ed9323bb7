"""``tfmuster doctor``: show what is installed here."""

from __future__ import annotations

from typing import Any

import click


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print JSON. Default: text.")
@click.option(
    "--devices/--no-devices",
    default=True,
    help="Start TensorFlow to list its devices, which takes some seconds. Default: --devices.",
)
def command(*, as_json: bool, devices: bool) -> None:
    """Show what is installed here, for yourself or for an issue."""
    from ..diagnostics.doctor import doctor
    from ..system.terminal_text import json_text

    report = doctor(devices=devices)
    if as_json:
        click.echo(json_text(report))
        return
    for section, value in report.items():
        if section != "notes":
            _print(section, value)
    click.echo()
    for note in report["notes"]:
        click.echo(click.wrap_text(note, 100, initial_indent="* ", subsequent_indent="  "))


def _print(label: str, value: Any, indent: str = "") -> None:
    if isinstance(value, dict) and value:
        click.echo(f"{indent}{label}:")
        for name, each in value.items():
            _print(name, each, indent + "  ")
    else:
        shown = ", ".join(value) if isinstance(value, list) else value
        click.echo(f"{indent}{label + ':':<14} {'none' if shown in (None, {}) else shown}")

"""``tfmuster test``: try out whether several workers can train here."""

from __future__ import annotations

import click

from ..errors import EXIT_DONE, EXIT_WORKER_FAILED
from .value_types import Number


@click.command("test")
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=Number(0, min_open=True),
    default=60.0,
    show_default=True,
    help="Stop the test after this time.",
)
def command(*, timeout: float) -> int:
    """Train on two workers of this machine for a moment, and say "You are ready" or what to fix."""
    from ..diagnostics.selftest import selftest, verdict

    report = selftest(timeout=timeout, tell=True)
    for line in verdict(report):
        click.echo(line)
    return EXIT_DONE if report["ready"] else EXIT_WORKER_FAILED

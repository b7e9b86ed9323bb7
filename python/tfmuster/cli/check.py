"""``tfmuster check``: list every finding about a cluster description."""

from __future__ import annotations

from typing import Any

import click

from ..errors import EXIT_DONE, EXIT_USAGE
from .cluster_options import as_index, cluster_options
from .value_types import Number


@click.command("check")
@cluster_options
@click.option(
    "--connect", is_flag=True, help="Also try to reach every address. Default: check the description only."
)
@click.option(
    "--timeout",
    type=Number(min=0, min_open=True),
    default=3.0,
    show_default=True,
    metavar="SECONDS",
    help="With --connect: wait this long for each address.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON. Default: as text.")
def command(
    *,
    cluster_file: str | None,
    task_type: str | None,
    task_index: str | None,
    connect: bool,
    timeout: float,
    as_json: bool,
    **addresses: Any,
) -> int:
    """Check a cluster description, and exit with 2 if it has an error.

    \b
    tfmuster check --cluster cluster.json
    tfmuster check --worker a:2222 --worker b:2222 --connect
    TF_CONFIG='{...}' tfmuster check
    """
    from ..cluster.check import check_cluster

    report = check_cluster(
        cluster_file,
        type=task_type,
        index=as_index(task_index),  # type: ignore[arg-type]  # a wrong text is for the check to report
        connect=connect,
        timeout=timeout,
        **addresses,
    )
    if as_json:
        from ..system.terminal_text import json_text

        click.echo(json_text(report.to_dict()))
    else:
        click.echo(str(report))
    return EXIT_DONE if report.ok else EXIT_USAGE

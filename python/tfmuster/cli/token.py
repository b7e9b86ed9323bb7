"""``tfmuster token``: make a secret for tasks that are started without a launcher."""

from __future__ import annotations

import click


@click.command("token")
def command() -> None:
    """Make a secret for workers that you start yourself, in a file that only you can read.

    Every worker that finds it in your home directory uses it, unless TFMUSTER_TOKEN is set: other users can
    then neither take a worker's place nor end the start. A job of `tfmuster launch` has a secret of its own.
    """
    from ..rendezvous.task.token_file import make_token_file

    path = make_token_file()
    click.echo(f"Workers that you start yourself use the secret in {path}.")
    click.echo(f"On machines with another home directory, copy it first: scp -p {path} HOST:{path}")

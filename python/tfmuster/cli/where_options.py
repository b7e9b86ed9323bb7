"""The options that say where a job is to run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..environment import SSH_CONFIG_VARIABLE
from ..launch.engines.registry import BACKENDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..launch.engines.base import Where

_Command = TypeVar("_Command", bound="Callable[..., Any]")


def where_options(command: _Command) -> _Command:
    """Add ``--backend`` and what the engines need to know."""
    options = [
        click.option(
            "--backend",
            metavar="NAME",
            help=f"What starts the processes: {', '.join(BACKENDS)}. "
            "Default: ssh if there are hosts, else local.",
        ),
        click.option(
            "--backend-option",
            "backend_options",
            metavar="TEXT",
            multiple=True,
            help="A setting of the backend's own, such as spark.executor.memory=4g, or an option of mpirun "
            "or sbatch, such as --partition=gpu; repeatable.",
        ),
        click.option(
            "--master", metavar="URL", help="Spark: the master, such as spark://node1:7077 or local[4]."
        ),
        click.option(
            "-H", "--hosts", metavar="HOST:SLOTS,...", help="Run on these machines, through ssh or mpirun."
        ),
        click.option(
            "--hostfile", type=click.Path(), help="Hosts one a line: HOST slots=N, as for mpirun, or HOST:N."
        ),
        click.option(
            "--copy", is_flag=True, help="Send the script to the hosts; else it is there at the same path."
        ),
        click.option(
            "--file",
            "files",
            metavar="PATH",
            multiple=True,
            help="A file or folder to send with the script; repeatable.",
        ),
        click.option(
            "--remote-python", help="The hosts' Python with tfmuster. Default: the path of this one."
        ),
        click.option(
            "--ssh-config", envvar=SSH_CONFIG_VARIABLE, help="ssh's configuration file, not the user's own."
        ),
        click.option(
            "--address",
            "addresses",
            metavar="HOST=ADDRESS",
            multiple=True,
            help="How the others reach a host.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def read_where(*, addresses: tuple[str, ...], **given: Any) -> Where:
    """What these options say."""
    from ..launch.engines.base import Where
    from ..launch.engines.ssh import parse_addresses

    return Where(addresses=parse_addresses(addresses), **given)

"""Options that say where a job runs."""

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
    """Add ``--backend`` and the options of the engines."""
    options = [
        click.option(
            "--backend",
            metavar="NAME",
            help=f"Start the processes with this backend: {', '.join(BACKENDS)}. "
            "Default: ssh if there are hosts, else local.",
        ),
        click.option(
            "--backend-option",
            "backend_options",
            metavar="TEXT",
            multiple=True,
            help="Set an option of the backend, such as spark.executor.memory=4g, or of mpirun or sbatch, "
            "such as --partition=gpu; repeatable.",
        ),
        click.option(
            "--master", metavar="URL", help="Master of Spark, such as spark://node1:7077 or local[4]."
        ),
        click.option(
            "-H", "--hosts", metavar="HOST:SLOTS,...", help="Run on these machines, by ssh or mpirun."
        ),
        click.option(
            "--hostfile",
            metavar="PATH",
            type=click.Path(),
            help="File with one host per line: HOST slots=N, as for mpirun, or HOST:N.",
        ),
        click.option(
            "--copy",
            is_flag=True,
            help="Send the script to the hosts. Default: it exists there at the same path.",
        ),
        click.option(
            "--file",
            "files",
            metavar="PATH",
            multiple=True,
            help="Send a file or a folder with the script; repeatable.",
        ),
        click.option(
            "--remote-python",
            metavar="PATH",
            help="Python with tfmuster on the hosts. Default: the path of this one.",
        ),
        click.option(
            "--ssh-config",
            metavar="PATH",
            envvar=SSH_CONFIG_VARIABLE,
            help="Configuration file of ssh. Default: that of the user.",
        ),
        click.option(
            "--isolated",
            is_flag=True,
            help="On this machine: give the workers a network of their own, in which they reach only each "
            "other.",
        ),
        click.option(
            "--warm",
            is_flag=True,
            help="On this machine or over ssh, with --max-restarts: keep a process ready for each worker, "
            "which has TensorFlow imported, so that a restart takes half the time.",
        ),
        click.option(
            "--min-workers",
            metavar="N",
            type=int,
            help="With hosts and --max-restarts: continue with N or more workers if hosts are lost. "
            "Default: all.",
        ),
        click.option(
            "--rejoin-timeout",
            metavar="SECONDS",
            type=click.FloatRange(min=0),
            default=30.0,
            show_default=True,
            help="With --min-workers: how long a lost host may take to come back at a restart.",
        ),
        click.option(
            "--hosts-from",
            metavar="COMMAND",
            help="Run on the machines that this shell command prints, a line HOST:SLOTS each. It is asked "
            "again at each restart.",
        ),
        click.option(
            "--grow",
            metavar="SECONDS",
            type=click.FloatRange(min=0, min_open=True),
            help="With --min-workers: look this often for hosts that are back or new, and continue with them "
            "from a new checkpoint, with at most -n workers.",
        ),
        click.option(
            "--requeue",
            is_flag=True,
            help="Slurm: write a checkpoint before the time limit, requeue the job, and resume it.",
        ),
        click.option(
            "--address",
            "addresses",
            metavar="HOST=ADDRESS",
            multiple=True,
            help="Address by which the other hosts reach a host; repeatable.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def read_where(*, addresses: tuple[str, ...], **given: Any) -> Where:
    """Make a `Where` of these options."""
    from ..launch.engines.base import Where
    from ..launch.engines.ssh import parse_addresses

    return Where(addresses=parse_addresses(addresses), **given)

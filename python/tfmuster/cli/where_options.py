"""Options that say where a job runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..environment import SSH_CONFIG_VARIABLE
from ..launch.engines.registry import BACKENDS
from .value_types import Number, WholeNumber

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
            shell_complete=lambda *given: [name for name in BACKENDS if name.startswith(given[-1])],
            help=f"Start the processes with this backend: {', '.join(BACKENDS)}. "
            "Default: ssh if there are hosts, else local.",
        ),
        click.option(
            "--backend-option",
            "backend_options",
            metavar="TEXT",
            multiple=True,
            help="Set an option of the backend, such as spark.executor.memory=4g, or of mpirun "
            "or sbatch, such as --partition=gpu; repeatable. Default: none.",
        ),
        click.option(
            "--master",
            metavar="URL",
            help="Use this Spark master, such as spark://node1:7077 or local[4]. Default: that of Spark.",
        ),
        click.option(
            "-H",
            "--hosts",
            metavar="HOST:SLOTS,...",
            help="Run on these machines, by ssh or mpirun. Default: on this one.",
        ),
        click.option(
            "--hostfile",
            metavar="PATH",
            type=click.Path(),
            help="Read the machines from a file with one host per line: HOST slots=N, as for "
            "mpirun, or HOST:N. Default: none.",
        ),
        click.option(
            "--copy",
            is_flag=True,
            help="Send the script to the hosts. Default: use the one there, at the same path.",
        ),
        click.option(
            "--file",
            "files",
            metavar="PATH",
            multiple=True,
            help="Send a file or a folder with the script; repeatable. Default: none.",
        ),
        click.option(
            "--remote-python",
            metavar="PATH",
            help="Use this Python with tfmuster on the hosts. Default: the path of this one.",
        ),
        click.option(
            "--ssh-config",
            metavar="PATH",
            envvar=SSH_CONFIG_VARIABLE,
            help="Use this configuration file of ssh. Default: TFMUSTER_SSH_CONFIG, else the user's own.",
        ),
        click.option(
            "--isolated",
            is_flag=True,
            help="On this machine: give the workers a network of their own, in which they reach "
            "only each other. Default: use that of the machine.",
        ),
        click.option(
            "--warm",
            is_flag=True,
            help="On this machine or over ssh, with --max-restarts: keep a process ready for "
            "each worker, which has TensorFlow imported, so that a restart takes half the "
            "time. Default: start new ones.",
        ),
        click.option(
            "--oversubscribe",
            is_flag=True,
            help="On this machine: start more than four processes for a core, or more than the free "
            "memory holds. Default: refuse that.",
        ),
        click.option(
            "--min-workers",
            metavar="N",
            type=WholeNumber(),
            help="With hosts and --max-restarts: continue with N or more workers if hosts are "
            "lost. Default: all.",
        ),
        click.option(
            "--rejoin-timeout",
            metavar="SECONDS",
            type=Number(min=0),
            default=30.0,
            show_default=True,
            help="With --min-workers: wait this long at a restart for a lost host to come back.",
        ),
        click.option(
            "--hosts-from",
            metavar="COMMAND",
            help="Run on the machines that this shell command prints, a line HOST:SLOTS each. "
            "Each restart runs it again. Default: none.",
        ),
        click.option(
            "--grow",
            metavar="SECONDS",
            type=Number(min=0, min_open=True),
            help="With --min-workers: look this often for hosts that are back or new, and "
            "continue with them from a new checkpoint, with at most -n workers. Default: "
            "never.",
        ),
        click.option(
            "--requeue",
            is_flag=True,
            help="Slurm: write a checkpoint before the time limit, requeue the job, and resume "
            "it. Default: do not.",
        ),
        click.option(
            "--address",
            "addresses",
            metavar="HOST=ADDRESS",
            multiple=True,
            help="Set the address by which the other hosts reach a host; repeatable. Default: its name.",
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

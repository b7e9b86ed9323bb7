"""``tfmuster manifest gce``, ``ec2`` and ``skypilot``: print what rents machines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from .program_argument import program_argument
from .value_types import WholeNumber


def _every(command: Callable[..., Any]) -> Callable[..., Any]:
    options = [
        click.option(
            "-n",
            "--workers",
            type=WholeNumber(1, 1000),
            metavar="N",
            required=True,
            help="Rent this many machines. Required.",
        ),
        click.option(
            "--name",
            metavar="NAME",
            default="tfmuster",
            show_default=True,
            help="Begin all names with this text.",
        ),
        click.option(
            "--source",
            metavar="URL",
            required=True,
            help="Let the machines download tfmuster's repository as a .tar.gz archive from this "
            "https URL. Required.",
        ),
        click.option(
            "--port",
            metavar="PORT",
            type=WholeNumber(1024, 65535),
            default=2222,
            show_default=True,
            help="Let TensorFlow listen on this port.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def _provider(command: Callable[..., Any]) -> Callable[..., Any]:
    disk = click.option(
        "--disk-gb",
        metavar="GB",
        type=WholeNumber(10, 16000),
        default=50,
        show_default=True,
        help="Give each machine a disk of this size.",
    )
    ssh_from = click.option(
        "--ssh-from",
        metavar="CIDR",
        help="Also allow ssh from these addresses, such as 203.0.113.7/32. Default: from none.",
    )
    return _every(disk(ssh_from(command)))


@click.command("gce")
@_provider
@click.option(
    "--zone",
    metavar="ZONE",
    required=True,
    help="Rent the machines in this zone, such as europe-west2-a. Required.",
)
@click.option("--project", metavar="PROJECT", help="Rent them for this project. Default: that of gcloud.")
@click.option(
    "--network", metavar="NETWORK", default="default", show_default=True, help="Connect them to this network."
)
@click.option(
    "--machine-type",
    metavar="TYPE",
    default="e2-standard-4",
    show_default=True,
    help="Rent machines of this type.",
)
@click.option(
    "--image-family",
    "image",
    metavar="FAMILY",
    default="debian-12",
    show_default=True,
    help="Take the newest image of this family.",
)
@click.option(
    "--image-project",
    metavar="PROJECT",
    default="debian-cloud",
    show_default=True,
    help="Take the image from this project.",
)
@click.option(
    "--accelerator",
    metavar="TYPE",
    help="Add GPUs of this type, such as nvidia-tesla-t4. The image must have drivers. Default: none.",
)
@click.option(
    "--accelerators",
    metavar="N",
    type=WholeNumber(1, 16),
    default=1,
    show_default=True,
    help="With --accelerator: add this many GPUs per machine.",
)
def gce(**given: Any) -> None:
    """Print the gcloud commands that create machines for a job. Nothing is sent anywhere.

    \b
    tfmuster manifest gce -n 4 --zone europe-west2-a --source https://example.org/tfmuster.tar.gz
    """
    from ..launcher.manifests.rented_machines import GceMachines, gce_commands

    click.echo(gce_commands(GceMachines(**given, gpus=given["accelerator"] is not None)), nl=False)


@click.command("ec2")
@_provider
@click.option("--region", metavar="REGION", help="Rent the machines in this region. Default: that of aws.")
@click.option(
    "--machine-type",
    metavar="TYPE",
    default="m6i.xlarge",
    show_default=True,
    help="Rent machines of this type.",
)
@click.option("--image", metavar="AMI", help="Take this AMI. Default: the newest Debian 12.")
@click.option(
    "--gpus",
    is_flag=True,
    help="Use the GPUs of the machines. The image must have drivers. Default: use none.",
)
@click.option("--key-name", metavar="NAME", help="Let this key pair log in by ssh. Default: none.")
@click.option("--subnet", metavar="SUBNET", help="Put the machines into this subnet. Default: that of aws.")
@click.option("--vpc", metavar="VPC", help="Take the subnet from this VPC. Default: the default VPC.")
def ec2(**given: Any) -> None:
    """Print the aws commands that create machines for a job. Nothing is sent anywhere.

    \b
    tfmuster manifest ec2 -n 4 --key-name me --ssh-from 203.0.113.7/32 \\
      --source https://example.org/tfmuster.tar.gz
    """
    from ..launcher.manifests.rented_machines import Ec2Machines, ec2_commands

    given = {name: value for name, value in given.items() if name != "image" or value is not None}
    click.echo(ec2_commands(Ec2Machines(**given)), nl=False)


# Options end at the script's name. Arguments after it belong to the script.
@click.command("skypilot", context_settings={"allow_interspersed_args": False})
@_every
@click.option(
    "--accelerators",
    metavar="TYPE:N",
    help="Rent machines with these GPUs, such as T4:1. Default: without GPUs.",
)
@program_argument
def skypilot(*, program: tuple[str, ...], **given: Any) -> None:
    """Print a task file for `sky launch` that rents machines and trains on them. Nothing is sent anywhere.

    \b
    tfmuster manifest skypilot -n 4 --source https://example.org/tfmuster.tar.gz -- train.py --epochs 3
    """
    from ..launcher.manifests.rented_machines import SkyPilotMachines, skypilot_task

    machines = SkyPilotMachines(**given, command=program, gpus=given["accelerators"] is not None)
    click.echo(skypilot_task(machines), nl=False)

"""``tfmuster manifest gce`` and ``ec2``: print the commands that rent machines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click


def _common(command: Callable[..., Any]) -> Callable[..., Any]:
    options = [
        click.option(
            "-n",
            "--workers",
            type=click.IntRange(1, 1000),
            metavar="N",
            required=True,
            help="Number of machines.",
        ),
        click.option("--name", default="tfmuster", show_default=True, help="Prefix of all names."),
        click.option(
            "--source",
            metavar="URL",
            required=True,
            help="https URL of a .tar.gz archive of tfmuster's repository that the machines can download.",
        ),
        click.option(
            "--port",
            type=click.IntRange(1024, 65535),
            default=2222,
            show_default=True,
            help="Port on which TensorFlow listens.",
        ),
        click.option(
            "--disk-gb",
            type=click.IntRange(10, 16000),
            default=50,
            show_default=True,
            help="Disk size of each machine.",
        ),
        click.option(
            "--ssh-from", metavar="CIDR", help="Also allow ssh from these addresses, such as 203.0.113.7/32."
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@click.command("gce")
@_common
@click.option("--zone", required=True, help="Zone of the machines, such as europe-west2-a.")
@click.option("--project", help="Project of the machines. Default: that of gcloud.")
@click.option("--network", default="default", show_default=True)
@click.option("--machine-type", default="e2-standard-4", show_default=True)
@click.option("--image-family", "image", default="debian-12", show_default=True)
@click.option("--image-project", default="debian-cloud", show_default=True)
@click.option(
    "--accelerator", metavar="TYPE", help="Type of GPU, such as nvidia-tesla-t4; needs an image with drivers."
)
@click.option(
    "--accelerators", type=click.IntRange(1, 16), default=1, show_default=True, help="GPUs per machine."
)
def gce(**given: Any) -> None:
    """Print the gcloud commands that create machines for a job. Nothing is sent anywhere.

    \b
    tfmuster manifest gce -n 4 --zone europe-west2-a --source https://example.org/tfmuster.tar.gz
    """
    from ..launch.manifests.gce import GceMachines, gce_commands

    click.echo(gce_commands(GceMachines(**given, gpus=given["accelerator"] is not None)), nl=False)


@click.command("ec2")
@_common
@click.option("--region", help="Region of the machines. Default: that of aws.")
@click.option("--machine-type", default="m6i.xlarge", show_default=True)
@click.option("--image", help="AMI of the machines. Default: the newest Debian 12.")
@click.option("--gpus", is_flag=True, help="Say that the machines have GPUs; needs an image with drivers.")
@click.option("--key-name", help="Key pair for ssh.")
@click.option("--subnet", help="Subnet of the machines.")
@click.option("--vpc", help="VPC of the subnet. Default: the default VPC.")
def ec2(**given: Any) -> None:
    """Print the aws commands that create machines for a job. Nothing is sent anywhere.

    \b
    tfmuster manifest ec2 -n 4 --key-name me --ssh-from 203.0.113.7/32 \\
      --source https://example.org/tfmuster.tar.gz
    """
    from ..launch.manifests.ec2 import Ec2Machines, ec2_commands

    given = {name: value for name, value in given.items() if name != "image" or value is not None}
    click.echo(ec2_commands(Ec2Machines(**given)), nl=False)

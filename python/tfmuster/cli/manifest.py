"""``tfmuster manifest``: print a Kubernetes manifest, or commands that rent machines."""

from __future__ import annotations

from typing import Any

import click

from ..environment import LARGEST_SEED
from ..launcher.manifests.pod_job import PodJob
from ..launcher.manifests.rented_machines import Ec2Machines, GceMachines, SkyPilotMachines
from .parameters import ENDS_AT_PROGRAM, Number, OneOf, WholeNumber, all_of, option, program_argument, refused

_COUNT = WholeNumber(min=0)
_PORT = WholeNumber(1024, 65535)


@click.group("manifest")
def manifest() -> None:
    """Print a Kubernetes manifest, or commands that rent machines. Nothing is sent anywhere."""


@manifest.command("kubernetes", context_settings=ENDS_AT_PROGRAM)
@option("--image IMAGE", "Run this container image, which has tfmuster and the script.", required=True)
@option("-n, --workers N", "Start this many workers, one per pod.", WholeNumber(min=1), required=True)
@option("--ps N", "Start this many parameter servers, one per pod. Default: 0.", _COUNT, default=0)
@option("--gpus-per-worker N", "Request this many GPUs for each worker. Default: 0.", _COUNT, default=0)
@option(
    "--kind",
    "Print an Indexed Job, which needs no operator (job, the default), a JobSet for "
    "its controller (jobset), or a TFJob for Kubeflow's training operator (tfjob).",
    OneOf(["job", "jobset", "tfjob"]),
    default="job",
    show_default=False,
)
@option("--name NAME", "Name the job; a DNS label. Default: the name of the script.")
@option("--namespace NAMESPACE", "Put the job into this namespace. Default: that of kubectl.")
@option("--port PORT", "Let each pod listen on this port.", _PORT, default=PodJob.port)
@option("--env NAME=VALUE", "Set a variable in every pod; repeatable. Default: none.", multiple=True)
@option(
    "--volume CLAIM=/PATH",
    "Mount a PersistentVolumeClaim at a path; repeatable. Default: none.",
    name="volumes",
    multiple=True,
)
@option(
    "--checkpoint-volume CLAIM=/PATH",
    "Keep checkpoints on a PersistentVolumeClaim, and resume from them in place of "
    "evicted pods. Default: keep none.",
)
@option(
    "--max-restarts N",
    "With --checkpoint-volume: restart all pods after a failure, at most N times. Default: 0.",
    _COUNT,
    default=0,
)
@option(
    "--grace SECONDS",
    "Let a pod that is evicted take this long to write a checkpoint.",
    Number(0, min_open=True),
    default=PodJob.grace,
)
@option(
    "--token-secret SECRET",
    "Take the job's password from the key `token` of a Secret. Default: use none.",
)
@option(
    "--start-timeout SECONDS",
    "Let a pod wait this long for the other pods.",
    Number(0, min_open=True),
    default=PodJob.start_timeout,
)
@option(
    "--run-as UID",
    "Run as this user and group; namespaces that are restricted refuse 0, root.",
    WholeNumber(0, 2**31 - 1),
    default=PodJob.run_as,
)
@option("--cpu QUANTITY", "Request so many processors for each pod.", default=PodJob.cpu)
@option(
    "--memory QUANTITY", "Request so much memory for each pod, and limit it to that.", default=PodJob.memory
)
@option(
    "--node-selector KEY=VALUE",
    "Use only nodes with this label; repeatable. Default: any.",
    multiple=True,
)
@option(
    "--toleration KEY[=VALUE][:EFFECT]",
    "Also use nodes with this taint, such as those of spot machines; repeatable. Default: none.",
    name="tolerations",
    multiple=True,
)
@option("--pull-secret SECRET", "Use this Secret to pull the image. Default: none.")
@option("--ttl SECONDS", "Remove the job so long after its end. Default: never.", _COUNT)
@option("--deadline SECONDS", "End the job after this time. Default: never.", WholeNumber(min=1))
@option(
    "--network-policy/--no-network-policy",
    "Accept connections only from pods of the job. Default: --network-policy.",
    default=True,
)
@option(
    "--seed N",
    "Seed the random number generators of every pod. Default: TFMUSTER_SEED, else drawn.",
    WholeNumber(0, LARGEST_SEED),
)
@program_argument()
def kubernetes(
    *,
    program: tuple[str, ...],
    kind: str,
    env: tuple[str, ...],
    volumes: tuple[str, ...],
    checkpoint_volume: str | None,
    node_selector: tuple[str, ...],
    **settings: Any,
) -> None:
    """Print a manifest for `kubectl apply -f -` that runs a command of an image on several pods.

    \b
    tfmuster manifest kubernetes --image me/digits:1 -n 4 -- train.py --epochs 3
    tfmuster manifest kubernetes --image me/digits:1 -n 4 --ps 1 --gpus-per-worker 1 -- train.R
    """
    from ..launcher.manifests.kubernetes import indexed_job, job_set, tf_job, to_yaml

    job = PodJob(
        command=program,
        env=_pairs("--env", env),
        volumes=_pairs("--volume", volumes),
        node_selector=_pairs("--node-selector", node_selector),
        checkpoint_volume=_pair("--checkpoint-volume", checkpoint_volume) if checkpoint_volume else None,
        **settings,
    )
    make = {"job": indexed_job, "jobset": job_set, "tfjob": tf_job}[kind]
    click.echo(to_yaml(make(job)), nl=False)


def _pairs(option: str, texts: tuple[str, ...]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts:
        name, value = _pair(option, text)
        if name in pairs:
            raise refused(option, "each name once", text)
        pairs[name] = value
    return pairs


def _pair(option: str, text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise refused(option, "a name, = and a value", text)
    return name, value


_machines = all_of(
    option("-n, --workers N", "Rent this many machines.", WholeNumber(1, 1000), required=True),
    option("--name NAME", "Begin all names with this text.", default="tfmuster"),
    option(
        "--source URL",
        "Let the machines download tfmuster's repository as a .tar.gz archive from this https URL.",
        required=True,
    ),
    option("--port PORT", "Let TensorFlow listen on this port.", _PORT, default=GceMachines.port),
)
_provider = all_of(
    _machines,
    option(
        "--disk-gb GB",
        "Give each machine a disk of this size.",
        WholeNumber(10, 16000),
        default=GceMachines.disk_gb,
    ),
    option(
        "--ssh-from CIDR",
        "Also allow ssh from these addresses, such as 203.0.113.7/32. Without it, the script can't "
        "start the program. Default: from none.",
    ),
    option(
        "--hours N",
        "Remove the machines after this many hours, whatever happens.",
        WholeNumber(1, 2880),
        default=GceMachines.hours,
    ),
    option(
        "--spot",
        "Rent spot machines, which are cheaper and can be reclaimed; the job then writes a checkpoint. "
        "Default: rent others.",
    ),
)


@manifest.command("gce")
@_provider
@option("--zone ZONE", "Rent the machines in this zone, such as europe-west2-a.", required=True)
@option("--project PROJECT", "Rent them for this project. Default: that of gcloud.")
@option("--network NETWORK", "Connect them to this network. Default: to one of their own.")
@option("--machine-type TYPE", "Rent machines of this type.", default=GceMachines.machine_type)
@option(
    "--image-family FAMILY",
    "Take the newest image of this family.",
    name="image",
    default=GceMachines.image,
)
@option("--image-project PROJECT", "Take the image from this project.", default=GceMachines.image_project)
@option(
    "--accelerator TYPE",
    "Add GPUs of this type, such as nvidia-tesla-t4. The image must have drivers. Default: none.",
)
@option(
    "--accelerators N",
    "With --accelerator: add this many GPUs per machine.",
    WholeNumber(1, 16),
    default=GceMachines.accelerators,
)
def gce(**settings: Any) -> None:
    """Print a script that rents machines by gcloud, runs a job, and deletes them. Nothing is sent anywhere.

    \b
    tfmuster manifest gce -n 4 --zone europe-west2-a --source https://example.org/tfmuster.tar.gz
    """
    machines = GceMachines(**settings, gpus=settings["accelerator"] is not None)
    click.echo(machines.script(), nl=False)


@manifest.command("ec2")
@_provider
@option("--region REGION", "Rent the machines in this region. Default: that of aws.")
@option("--machine-type TYPE", "Rent machines of this type.", default=Ec2Machines.machine_type)
@option("--image AMI", "Take this AMI. Default: the newest Debian 12.", default=Ec2Machines.image)
@option("--gpus", "Use the GPUs of the machines. The image must have drivers. Default: use none.")
@option("--key-name NAME", "Let this key pair log in by ssh. Default: none.")
@option("--subnet SUBNET", "Put the machines into this subnet. Default: that of aws.")
@option("--vpc VPC", "Take the subnet from this VPC. Default: the default VPC.")
def ec2(**settings: Any) -> None:
    """Print a script that rents machines by aws, runs a job, and deletes them. Nothing is sent anywhere.

    \b
    tfmuster manifest ec2 -n 4 --key-name me --ssh-from 203.0.113.7/32 \\
      --source https://example.org/tfmuster.tar.gz
    """
    click.echo(Ec2Machines(**settings).script(), nl=False)


@manifest.command("skypilot", context_settings=ENDS_AT_PROGRAM)
@_machines
@option("--accelerators TYPE:N", "Rent machines with these GPUs, such as T4:1. Default: without GPUs.")
@program_argument()
def skypilot(*, program: tuple[str, ...], **settings: Any) -> None:
    """Print a task file for `sky launch` that rents machines and trains on them. Nothing is sent anywhere.

    \b
    tfmuster manifest skypilot -n 4 --source https://example.org/tfmuster.tar.gz -- train.py --epochs 3
    """
    machines = SkyPilotMachines(**settings, command=program, gpus=settings["accelerators"] is not None)
    click.echo(machines.script(), nl=False)

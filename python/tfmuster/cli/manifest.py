"""``tfmuster manifest``: print a Kubernetes manifest, or what rents machines."""

from __future__ import annotations

from typing import Any

import click

from ..environment import LARGEST_SEED
from .manifest_machines import ec2, gce, skypilot
from .pod_options import pod_options, take_pods
from .program_argument import program_argument
from .value_types import Number, OneOf, WholeNumber


@click.group("manifest")
def command() -> None:
    """Print a Kubernetes manifest, or what rents machines. Nothing is sent anywhere."""


command.add_command(gce)
command.add_command(ec2)
command.add_command(skypilot)


# Options end at the script's name. Arguments after it belong to the script.
@command.command("kubernetes", context_settings={"allow_interspersed_args": False})
@click.option(
    "--image",
    metavar="IMAGE",
    required=True,
    help="Run this container image, which has tfmuster and the script. Required.",
)
@click.option(
    "-n",
    "--workers",
    metavar="N",
    type=WholeNumber(min=1),
    required=True,
    help="Start this many workers, one per pod. Required.",
)
@click.option(
    "--ps",
    metavar="N",
    type=WholeNumber(min=0),
    default=0,
    help="Start this many parameter servers, one per pod. Default: 0.",
)
@click.option(
    "--gpus-per-worker",
    metavar="N",
    type=WholeNumber(min=0),
    default=0,
    help="Request this many GPUs for each worker. Default: 0.",
)
@click.option(
    "--kind",
    type=OneOf(["job", "jobset", "tfjob"]),
    default="job",
    help="Print an Indexed Job, which needs no operator (job, the default), a JobSet for "
    "its controller (jobset), or a TFJob for Kubeflow's training operator (tfjob).",
)
@click.option("--name", metavar="NAME", help="Name the job; a DNS label. Default: the name of the script.")
@click.option(
    "--namespace", metavar="NAMESPACE", help="Put the job into this namespace. Default: that of kubectl."
)
@click.option(
    "--port",
    metavar="PORT",
    type=WholeNumber(1024, 65535),
    default=2222,
    show_default=True,
    help="Let each pod listen on this port.",
)
@pod_options
@click.option(
    "--start-timeout",
    metavar="SECONDS",
    type=Number(0, min_open=True),
    default=600.0,
    show_default=True,
    help="Let a pod wait this long for the other pods.",
)
@click.option(
    "--network-policy/--no-network-policy",
    default=True,
    help="Accept connections only from pods of the job. Default: --network-policy.",
)
@click.option(
    "--seed",
    metavar="N",
    type=WholeNumber(0, LARGEST_SEED),
    help="Seed the random number generators of every pod. Default: TFMUSTER_SEED, else drawn.",
)
@program_argument
def kubernetes(
    *,
    image: str,
    workers: int,
    ps: int,
    gpus_per_worker: int,
    kind: str,
    name: str | None,
    namespace: str | None,
    port: int,
    start_timeout: float,
    network_policy: bool,
    seed: int | None,
    program: tuple[str, ...],
    **pods: Any,
) -> None:
    """Print a manifest for `kubectl apply -f -` that runs a command of an image on several pods.

    \b
    tfmuster manifest kubernetes --image me/digits:1 -n 4 -- train.py --epochs 3
    tfmuster manifest kubernetes --image me/digits:1 -n 4 --ps 1 --gpus-per-worker 1 -- train.R
    """
    from ..launcher.job import seed_for
    from ..launcher.manifests.kubernetes import indexed_job, job_set, tf_job, to_yaml
    from ..launcher.manifests.pod_job import PodJob

    job = PodJob(
        command=program,
        image=image,
        workers=workers,
        ps=ps,
        name=name,
        namespace=namespace,
        gpus_per_worker=gpus_per_worker,
        port=port,
        start_timeout=start_timeout,
        network_policy=network_policy,
        seed=seed_for(seed),
        **take_pods(pods),
    )
    make = {"job": indexed_job, "jobset": job_set, "tfjob": tf_job}[kind]
    click.echo(to_yaml(make(job)), nl=False)

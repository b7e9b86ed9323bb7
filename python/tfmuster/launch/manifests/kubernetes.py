"""Write a job's Kubernetes manifest: an Indexed Job with a headless Service, or a TFJob of Kubeflow.

The YAML is only printed; apply it with ``kubectl apply -f``. Each pod runs ``tfmuster worker``, which gets
its task from :mod:`~tfmuster.cluster.resolvers.kubernetes` or from the TF_CONFIG of Kubeflow's operator.

Parameter servers have a separate Job, because all pods of a Job have the same resources, and parameter
servers need no GPU.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

import yaml

from ...cluster.resolvers.kubernetes import (
    DEFAULT_PORT,
    INDEX_VARIABLE,
    job_name,
)
from ...environment import (
    BASE_PORT_VARIABLE,
    KUBERNETES_NAME_VARIABLE,
    KUBERNETES_PS_VARIABLE,
    KUBERNETES_ROLE_VARIABLE,
    KUBERNETES_WORKERS_VARIABLE,
    LARGEST_SEED,
    SEED_VARIABLE,
    START_TIMEOUT_VARIABLE,
    TOKEN_VARIABLE,
)
from ...errors import LaunchError
from ...system.gpus import NO_GPU, VISIBLE
from ..engines.base import find_program
from ..job import seed_for
from ..text_checks import check_label, check_text, name_for

Object = dict[str, Any]

#: Pods are scheduled and pull their images one by one, so minutes may pass between the first and the last.
START_TIMEOUT = 600.0
_SUBDOMAIN = re.compile(
    r"(?=.{1,253}\Z)[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*"
)
# Format of image names: [REGISTRY[:PORT]/]NAME[:TAG][@DIGEST].
_IMAGE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/:@-]{0,510}[A-Za-z0-9])?", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_NO_SUBDOMAIN = "A {}'s name has lowercase letters, digits, - and dots, a letter or digit beside each dot."
_NO_VARIABLE = "A variable's name has letters, digits and _, and is not one that the manifest sets."
_OURS = {
    INDEX_VARIABLE,
    KUBERNETES_NAME_VARIABLE,
    KUBERNETES_PS_VARIABLE,
    KUBERNETES_ROLE_VARIABLE,
    KUBERNETES_WORKERS_VARIABLE,
    BASE_PORT_VARIABLE,
    SEED_VARIABLE,
    "TF_CONFIG",
    TOKEN_VARIABLE,
}


@dataclass(frozen=True, kw_only=True)
class PodJob:
    """A job that runs in pods. Raises LaunchError for values that Kubernetes would refuse or misread.

    Attributes
    ----------
    command : sequence of str
        A script in the image, or a command, with its arguments.
    image : str
        Name of an image with tfmuster and the script.
    workers, ps : int
        Number of pods with workers and with parameter servers.
    name : str, optional
        Name of the Job and its Service. Default: the script's name.
    namespace : str, optional
        Namespace of the objects. Default: that of ``kubectl apply``.
    gpus_per_worker : int
        Number of GPUs of each worker. Parameter servers have none.
    port : int
        Port on which TensorFlow listens in each pod.
    env : mapping
        Additional environment variables of every pod.
    volumes : mapping
        Mount path of each PersistentVolumeClaim, by the claim's name.
    token_secret : str, optional
        Name of the Secret whose key ``token`` has the job's token for the rendezvous.
    start_timeout : float
        Time limit for all pods to start, in seconds.
    network_policy : bool
        Whether only the job's own pods may connect to its pods.
    seed : int
        Seed of the random number generators of every pod. Default: ``TFMUSTER_SEED``, else drawn, so that
        the manifest repeats a job.
    """

    command: Sequence[str]
    image: str
    workers: int
    ps: int = 0
    name: str | None = None
    namespace: str | None = None
    gpus_per_worker: int = 0
    port: int = DEFAULT_PORT
    env: Mapping[str, str] = field(default_factory=dict)
    volumes: Mapping[str, str] = field(default_factory=dict)
    token_secret: str | None = None
    start_timeout: float = START_TIMEOUT
    network_policy: bool = True
    seed: int = field(default_factory=lambda: seed_for(None))

    def __post_init__(self) -> None:
        check_text(*self.command, *self.env.values(), *self.volumes.values())
        if not _IMAGE.fullmatch(self.image):
            raise _refused("image", "An image's name must be REPOSITORY/NAME:TAG.", self.image)
        if type(self.seed) is not int or not 0 <= self.seed <= LARGEST_SEED:
            raise _refused(
                "seed", f"The seed must be a whole number from 0 to {LARGEST_SEED}.", repr(self.seed)
            )
        if self.namespace is not None:
            check_label(self.namespace, "namespace")
        if self.token_secret is not None and not _SUBDOMAIN.fullmatch(self.token_secret):
            raise _refused(
                "secret", "A Secret's name has lowercase letters, digits, - and dots.", self.token_secret
            )
        for variable in self.env:
            if not _VARIABLE.fullmatch(variable) or variable in _OURS:
                raise _refused("env", _NO_VARIABLE, variable)
        for claim, path in self.volumes.items():
            if not _SUBDOMAIN.fullmatch(claim):
                raise _refused("volume", _NO_SUBDOMAIN.format("claim"), claim)
            whole = PurePosixPath(path)
            if not whole.is_absolute() or ":" in path or ".." in whole.parts:
                raise _refused("volume", "A volume's path must be absolute, without a colon.", path)
        object.__setattr__(self, "name", name_for(self.name, self.command))

    @property
    def labels(self) -> dict[str, str]:
        """Labels by which the Service and the network policy select the job's pods."""
        return {"app.kubernetes.io/name": "tfmuster", "app.kubernetes.io/instance": str(self.name)}

    @property
    def roles(self) -> dict[str, int]:
        """Number of pods of each kind, without kinds that have none."""
        return {role: size for role, size in (("worker", self.workers), ("ps", self.ps)) if size}


def indexed_job(job: PodJob) -> list[Object]:
    """Make a headless Service, an Indexed Job, another one for parameter servers, and a network policy."""
    for role, size in job.roles.items():
        _check_host(f"{job_name(str(job.name), role)}-{size - 1}")
    service = {
        "clusterIP": "None",
        "selector": job.labels,
        # A pod becomes ready only together with the others, so it must find them before.
        "publishNotReadyAddresses": True,
        "ports": [{"name": "tensorflow", "port": job.port}],
    }
    objects = [_object(job, "v1", "Service", spec=service)]
    for role, size in job.roles.items():
        place = {
            KUBERNETES_NAME_VARIABLE: job.name,
            KUBERNETES_ROLE_VARIABLE: role,
            KUBERNETES_WORKERS_VARIABLE: str(job.workers),
            KUBERNETES_PS_VARIABLE: str(job.ps),
            BASE_PORT_VARIABLE: str(job.port),
        }
        template = _pod(job, role, "worker", place)
        template["spec"] = {"subdomain": job.name, "restartPolicy": "Never", **template["spec"]}
        spec = {
            "completionMode": "Indexed",
            "completions": size,
            "parallelism": size,
            # A single worker can't rejoin in TensorFlow: when one fails, the others end, too.
            "backoffLimit": 0,
            "template": template,
        }
        objects.append(_object(job, "batch/v1", "Job", name=job_name(str(job.name), role), spec=spec))
    return objects + _policies(job)


def tf_job(job: PodJob) -> list[Object]:
    """Make a TFJob, whose operator makes the Services and TF_CONFIG, and a network policy.

    Raises
    ------
    LaunchError
        If there is only one task, for which the operator makes no TF_CONFIG.
    """
    if job.workers + job.ps < 2:
        raise LaunchError(
            "Kubeflow's operator needs at least two tasks to make a cluster.",
            found="1 worker",
            fix="Start more workers (-n 2), or leave --kind tfjob out.",
            reason="kind",
        )
    kinds = {"worker": "Worker", "ps": "PS"}
    replicas = {}
    for role, size in job.roles.items():
        _check_host(f"{job.name}-{role}-{size - 1}")
        # The operator requires these names of the container and its port.
        template = _pod(job, role, "tensorflow", {}, port_name="tfjob-port")
        replicas[kinds[role]] = {"replicas": size, "restartPolicy": "Never", "template": template}
    spec = {
        "runPolicy": {"cleanPodPolicy": "Running", "backoffLimit": 0},
        "successPolicy": "AllWorkers",
        "tfReplicaSpecs": replicas,
    }
    return [_object(job, "kubeflow.org/v1", "TFJob", spec=spec), *_policies(job)]


def to_yaml(objects: Sequence[Object]) -> str:
    """Write YAML documents with every text value in double quotes, in ASCII and on one line."""
    return yaml.dump_all(
        objects, Dumper=_Quoting, explicit_start=True, sort_keys=False, width=sys.maxsize, allow_unicode=False
    )


class _Quoting(yaml.SafeDumper):
    """Quotes every text, because YAML readers differ in what they take for a number, a date or "no"."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_mapping(self, *given: Any, **more: Any) -> yaml.MappingNode:
        node = super().represent_mapping(*given, **more)
        # Keys need no quotes, because all are fixed names.
        for key, _ in node.value:
            key.style = None
        return node


_Quoting.add_representer(
    str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"')
)


def _object(job: PodJob, version: str, kind: str, *, spec: Object, name: str | None = None) -> Object:
    metadata = {"name": name or job.name, "labels": job.labels}
    if job.namespace is not None:
        metadata["namespace"] = job.namespace
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def _pod(
    job: PodJob, role: str, container: str, place: Mapping[str, Any], *, port_name: str = "tensorflow"
) -> Object:
    """Make the pod template of one role. `place` has the variables that tell a pod its task."""
    variables = {
        START_TIMEOUT_VARIABLE: f"{job.start_timeout:g}",
        SEED_VARIABLE: str(job.seed),
        **job.env,
    }
    if role == "ps":
        # If all pods of a node can use its GPUs, TensorFlow would take them.
        variables.setdefault(VISIBLE, NO_GPU)
    env: list[Object] = [{"name": name, "value": value} for name, value in place.items()]
    env += [{"name": name, "value": literal(value)} for name, value in variables.items()]
    if job.token_secret is not None:
        secret = {"secretKeyRef": {"name": job.token_secret, "key": "token"}}
        env.append({"name": TOKEN_VARIABLE, "valueFrom": secret})
    one: Object = {
        "name": container,
        "image": job.image,
        "command": ["tfmuster", "worker", "--", *(literal(word) for word in job.command)],
        "env": env,
        "ports": [{"name": port_name, "containerPort": job.port}],
        "securityContext": {"allowPrivilegeEscalation": False},
    }
    if job.gpus_per_worker and role == "worker":
        one["resources"] = {"limits": {"nvidia.com/gpu": job.gpus_per_worker}}
    # A training does not need the Kubernetes API.
    spec: Object = {"automountServiceAccountToken": False, "containers": [one]}
    if job.volumes:
        one["volumeMounts"] = [
            {"name": f"volume-{i}", "mountPath": path} for i, path in enumerate(job.volumes.values())
        ]
        spec["volumes"] = [
            {"name": f"volume-{i}", "persistentVolumeClaim": {"claimName": claim}}
            for i, claim in enumerate(job.volumes)
        ]
    return {"metadata": {"labels": job.labels}, "spec": spec}


def _policies(job: PodJob) -> list[Object]:
    """Allow traffic only between the job's pods, on all ports, because NCCL uses any port."""
    if not job.network_policy:
        return []
    pods = {"matchLabels": job.labels}
    spec = {
        "podSelector": pods,
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [{"podSelector": pods}]}],
    }
    return [_object(job, "networking.k8s.io/v1", "NetworkPolicy", spec=spec)]


def literal(text: str) -> str:
    """Escape a text, because Kubernetes replaces ``$(NAME)`` in commands and variables."""
    return text.replace("$", "$$")


def _check_host(host: str) -> None:
    if len(host) > 63:
        raise _refused("name", "A pod's name (job name and index) must have at most 63 characters.", host)


def _refused(reason: str, message: str, found: str) -> LaunchError:
    return LaunchError(message, found=ascii(found), reason=reason)


def available(seconds: float) -> str:
    """Return the path of kubectl, which applies manifests."""
    return find_program("kubectl", "manifests can be printed here, and applied on a machine with kubectl")

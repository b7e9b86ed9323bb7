"""What is asked of a job that runs in pods, checked before a manifest is written."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from ...cluster.resolvers.kubernetes import DEFAULT_PORT, VARIABLES
from ...environment import (
    BASE_PORT_VARIABLE,
    CHECKPOINT_DIR_VARIABLE,
    DEFAULT_GRACE_SECONDS,
    GRACE_VARIABLE,
    LARGEST_SEED,
    SEED_VARIABLE,
    TOKEN_VARIABLE,
    grace,
)
from ...errors import LaunchError
from ..command import command_name
from ..job import check_text, seed_for

#: Pods are scheduled and pull their images one by one, so minutes may pass between the first and the last.
START_TIMEOUT = 600.0
_SUBDOMAIN = re.compile(
    r"(?=.{1,253}\Z)[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*"
)

# As in RFC 1035. RFC 1123 also allows a digit first, but names of Services must not start with one.
_LABEL = re.compile(r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)

# Format of image names: [REGISTRY[:PORT]/]NAME[:TAG][@DIGEST].
_IMAGE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/:@-]{0,510}[A-Za-z0-9])?", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_QUANTITY = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,3})?(?:m|k|[KMGTPE]i|[MGTPE])?", re.ASCII)
_NAMED = r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
_KEY = re.compile(rf"(?:[a-z0-9](?:[a-z0-9.-]{{0,251}}[a-z0-9])?/)?{_NAMED}", re.ASCII)
_LABEL_VALUE = re.compile(rf"(?:{_NAMED})?", re.ASCII)
_TOLERATION = re.compile(
    rf"{_KEY.pattern}(?:={_LABEL_VALUE.pattern})?(?::(?:NoSchedule|PreferNoSchedule|NoExecute))?", re.ASCII
)
_NO_SUBDOMAIN = "A {}'s name has lowercase letters, digits, - and dots, a letter or digit beside each dot."
_NO_VARIABLE = "A variable's name has letters, digits and _, and is not one that the manifest sets."
_OURS = {
    *VARIABLES,
    BASE_PORT_VARIABLE,
    CHECKPOINT_DIR_VARIABLE,
    GRACE_VARIABLE,
    SEED_VARIABLE,
    "TF_CONFIG",
    TOKEN_VARIABLE,
}


@dataclass(frozen=True, kw_only=True)
class PodJob:
    """A job that runs in pods. Raises LaunchError for values that Kubernetes would refuse or misread."""

    #: A script in the image, or a command, with its arguments.
    command: Sequence[str]
    #: Name of an image with tfmuster and the script.
    image: str
    workers: int
    ps: int = 0
    #: Name of the Job and its Service. Default: the script's name.
    name: str | None = None
    #: Default: that of ``kubectl apply``.
    namespace: str | None = None
    #: Parameter servers have no GPUs.
    gpus_per_worker: int = 0
    #: Port on which TensorFlow listens in each pod.
    port: int = DEFAULT_PORT
    #: Additional environment variables of every pod.
    env: Mapping[str, str] = field(default_factory=dict)
    #: Mount path of each PersistentVolumeClaim, by the claim's name.
    volumes: Mapping[str, str] = field(default_factory=dict)
    #: A claim and its mount path. Checkpoints are there, from which pods resume that replace evicted ones.
    checkpoint_volume: tuple[str, str] | None = None
    #: How often all pods may start again after a failure. It needs a checkpoint volume.
    max_restarts: int = 0
    #: Time to write a checkpoint when a pod is evicted, in seconds.
    grace: float = DEFAULT_GRACE_SECONDS
    #: Name of the Secret whose key ``token`` has the job's token for the rendezvous.
    token_secret: str | None = None
    #: Time limit for all pods to start, in seconds.
    start_timeout: float = START_TIMEOUT
    #: Whether only the job's own pods may connect to its pods.
    network_policy: bool = True
    #: User and group of the processes, and group of the volumes. A namespace with the Pod Security Standard
    #: "restricted" admits all but 0, which is root.
    run_as: int = 1000
    #: Processors that each pod asks for. It may use more where others are idle.
    cpu: str = "1"
    #: Memory that each pod asks for and may use. A worker with a small model has 0.5 GB.
    memory: str = "2Gi"
    #: Labels that a node must have.
    node_selector: Mapping[str, str] = field(default_factory=dict)
    #: Taints of nodes that the pods tolerate, each as ``KEY[=VALUE][:EFFECT]``.
    tolerations: Sequence[str] = ()
    #: Name of the Secret with which images are pulled.
    pull_secret: str | None = None
    #: When a job that is over is removed, and how long it may run, in seconds.
    ttl: int | None = None
    deadline: int | None = None
    #: Drawn here by default, so that the manifest repeats a job.
    seed: int | None = None

    def __post_init__(self) -> None:
        check_text(*self.command, *self.env.values(), *self.volumes.values())
        if not _IMAGE.fullmatch(self.image):
            raise refused("image", "An image's name must be REPOSITORY/NAME:TAG.", self.image)
        object.__setattr__(self, "seed", seed_for(self.seed))
        if type(self.seed) is not int or not 0 <= self.seed <= LARGEST_SEED:
            raise refused(
                "seed", f"The seed must be a whole number from 0 to {LARGEST_SEED}.", repr(self.seed)
            )
        if self.namespace is not None:
            check_label(self.namespace, "namespace")
        if self.token_secret is not None and not _SUBDOMAIN.fullmatch(self.token_secret):
            raise refused(
                "secret", "A Secret's name has lowercase letters, digits, - and dots.", self.token_secret
            )
        if self.pull_secret is not None and not _SUBDOMAIN.fullmatch(self.pull_secret):
            raise refused("secret", _NO_SUBDOMAIN.format("Secret"), self.pull_secret)
        for what, text in (("cpu", self.cpu), ("memory", self.memory)):
            if not _QUANTITY.fullmatch(text):
                message = f"The {what} must be a quantity of Kubernetes, such as 2, 500m or 4Gi."
                raise refused("quantity", message, text)
        for text in self.tolerations:
            if not _TOLERATION.fullmatch(text):
                raise refused("toleration", "A toleration must be KEY[=VALUE][:EFFECT].", text)
        for label, value in self.node_selector.items():
            if not _KEY.fullmatch(label) or not _LABEL_VALUE.fullmatch(value):
                raise refused("selector", "A node's label must be KEY=VALUE.", f"{label}={value}")
        for variable in self.env:
            if not _VARIABLE.fullmatch(variable) or variable in _OURS:
                raise refused("env", _NO_VARIABLE, variable)
        grace(self.grace)
        if self.max_restarts and self.checkpoint_volume is None:
            raise refused("volume", "Restarts need a checkpoint volume.", "none")
        for claim, path in self.mounts:
            if not _SUBDOMAIN.fullmatch(claim):
                raise refused("volume", _NO_SUBDOMAIN.format("claim"), claim)
            whole = PurePosixPath(path)
            if not whole.is_absolute() or ":" in path or ".." in whole.parts:
                raise refused("volume", "A volume's path must be absolute, without a colon.", path)
        object.__setattr__(self, "name", name_for(self.name, self.command))

    @property
    def mounts(self) -> list[tuple[str, str]]:
        """PersistentVolumeClaims and the paths at which they are mounted."""
        return [*self.volumes.items(), *([self.checkpoint_volume] if self.checkpoint_volume else [])]

    @property
    def labels(self) -> dict[str, str]:
        """Labels by which the Service and the network policy select the job's pods."""
        return {"app.kubernetes.io/name": "tfmuster", "app.kubernetes.io/instance": str(self.name)}

    @property
    def roles(self) -> dict[str, int]:
        """Number of pods of each kind, without kinds that have none."""
        return {role: size for role, size in (("worker", self.workers), ("ps", self.ps)) if size}


def refused(reason: str, message: str, found: str) -> LaunchError:
    """Return the error for a value that Kubernetes would refuse."""
    return LaunchError(message, found=ascii(found), reason=reason)


def check_label(text: str, what: str) -> None:
    """Raise LaunchError unless the text is a DNS label."""
    if not _LABEL.fullmatch(text):
        message = f"A {what} must be a DNS label: at most 63 lowercase letters, digits and -, a letter first."
        raise refused("name", message, text)


def name_for(name: str | None, command: Sequence[str]) -> str:
    """Return the given name, which must be a DNS label, or one made from the script's name."""
    if name is not None:
        check_label(name, "job's name")
        return name
    if not command:
        raise LaunchError("Nothing to run.", fix="Name a script, or a command after `--`.", reason="command")
    label = re.sub(r"[^a-z0-9]+", "-", command_name(command).lower()).lstrip("-0123456789")
    return label[:40].strip("-") or "job"

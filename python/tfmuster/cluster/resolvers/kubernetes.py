"""A pod of an Indexed Job, from its index and from what ``tfmuster manifest kubernetes`` has put beside it.

Kubernetes gives each pod ``JOB_COMPLETION_INDEX``; the manifest says how many pods there are, and what they
are called:

``TFMUSTER_KUBERNETES_NAME``     of the workers' Job and of the headless Service
``TFMUSTER_KUBERNETES_ROLE``     ``worker`` or ``ps``, whose Job is called ``NAME-ps``
``TFMUSTER_KUBERNETES_WORKERS``  how many
``TFMUSTER_KUBERNETES_PS``       how many; 0 if it is not set
``TFMUSTER_BASE_PORT``           where each pod listens; 2222 if it is not set

A pod's name is ``JOB-INDEX.SERVICE`` for the others of its namespace
(https://kubernetes.io/docs/tasks/job/job-with-pod-to-pod-communication). An operator's pods have a TF_CONFIG
and need none of this.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...environment import (
    KUBERNETES_NAME_VARIABLE,
    KUBERNETES_PS_VARIABLE,
    KUBERNETES_ROLE_VARIABLE,
    KUBERNETES_WORKERS_VARIABLE,
)
from ...errors import LaunchError
from ..spec import Cluster, Task

NAME = "Kubernetes"
INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
#: Kubeflow's default, too.
DEFAULT_PORT = 2222
_MOST_PODS = 100_000


def is_here(environ: Mapping[str, str]) -> bool:
    """Whether this is a pod of such a Job. Those of other Indexed Jobs need not belong together."""
    return INDEX_VARIABLE in environ and KUBERNETES_WORKERS_VARIABLE in environ


def resolve(environ: Mapping[str, str], base_port: int | None) -> Task:
    """The task that ``JOB_COMPLETION_INDEX`` is in the cluster of its Job.

    Parameters
    ----------
    environ : mapping
        The pod's variables.
    base_port : int or None
        Where each pod listens; 2222 unless given.

    Raises
    ------
    LaunchError
        A variable is missing or makes no sense.
    """
    name = environ.get(KUBERNETES_NAME_VARIABLE, "")
    role = environ.get(KUBERNETES_ROLE_VARIABLE, "")
    sizes = {
        "worker": _number(environ, KUBERNETES_WORKERS_VARIABLE, least=1),
        "ps": _number(environ, KUBERNETES_PS_VARIABLE) if KUBERNETES_PS_VARIABLE in environ else 0,
    }
    index = _number(environ, INDEX_VARIABLE)
    if not name or role not in sizes or index >= sizes[role]:
        seen = (
            INDEX_VARIABLE,
            KUBERNETES_NAME_VARIABLE,
            KUBERNETES_ROLE_VARIABLE,
            KUBERNETES_WORKERS_VARIABLE,
            KUBERNETES_PS_VARIABLE,
        )
        raise _wrong(", ".join(f"{each}={environ[each]!r}" for each in seen if each in environ))
    port = base_port or DEFAULT_PORT
    jobs = {kind: [f"{pod_host(name, kind, i)}:{port}" for i in range(n)] for kind, n in sizes.items()}
    return Cluster(**jobs).task(role, index)


def gpus(environ: Mapping[str, str]) -> dict[str, str]:
    """Nothing: a container sees the GPUs of its own resource limits, and no others."""
    return {}


def job_name(name: str, role: str) -> str:
    """The name of the Job whose pods have this role."""
    return name if role == "worker" else f"{name}-{role}"


def pod_host(name: str, role: str, index: int) -> str:
    """The name by which the pods of one namespace find one another."""
    return f"{job_name(name, role)}-{index}.{name}"


def _number(environ: Mapping[str, str], name: str, least: int = 0) -> int:
    text = environ[name].strip()
    if not (text.isascii() and text.isdigit() and len(text) <= 6 and least <= int(text) <= _MOST_PODS):
        raise _wrong(f"{name}={environ[name]!r}")
    return int(text)


def _wrong(found: str) -> LaunchError:
    return LaunchError(
        "The variables of a pod must say its place in its Job.",
        found=found,
        fix="Write the manifest by `tfmuster manifest kubernetes`, and leave its variables as they are.",
        reason="kubernetes",
    )

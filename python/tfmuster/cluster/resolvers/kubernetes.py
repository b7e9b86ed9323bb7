"""Find the task of a pod of an Indexed Job or JobSet by the variables of ``tfmuster manifest kubernetes``.

Kubernetes gives each pod ``JOB_COMPLETION_INDEX``. The manifest adds the number and the names of the pods:

``TFMUSTER_KUBERNETES_NAME``     name of the workers' Job and of the headless Service
``TFMUSTER_KUBERNETES_KIND``     ``jobset`` for a JobSet, whose Jobs are ``NAME-worker-0`` and ``NAME-ps-0``
``TFMUSTER_KUBERNETES_ROLE``     ``worker`` or ``ps``; the Job of the parameter servers is ``NAME-ps``
``TFMUSTER_KUBERNETES_WORKERS``  number of workers
``TFMUSTER_KUBERNETES_PS``       number of parameter servers; default: 0
``TFMUSTER_BASE_PORT``           port on which each pod listens; default: 2222

Within its namespace a pod is called ``JOB-INDEX.SERVICE``
(https://kubernetes.io/docs/tasks/job/job-with-pod-to-pod-communication). Pods of Kubeflow's operator have a
TF_CONFIG instead.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...environment import (
    KUBERNETES_KIND_VARIABLE,
    KUBERNETES_NAME_VARIABLE,
    KUBERNETES_PS_VARIABLE,
    KUBERNETES_ROLE_VARIABLE,
    KUBERNETES_WORKERS_VARIABLE,
)
from ...errors import LaunchError
from ..spec import Cluster, Task
from .batch import whole_number

NAME = "Kubernetes"
#: The kind of a set of Jobs.
JOB_SET = "jobset"
INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
#: Kubeflow has the same default.
DEFAULT_PORT = 2222
_MOST_PODS = 100_000
#: The variables that tell a pod its place.
VARIABLES = (
    INDEX_VARIABLE,
    KUBERNETES_NAME_VARIABLE,
    KUBERNETES_KIND_VARIABLE,
    KUBERNETES_ROLE_VARIABLE,
    KUBERNETES_WORKERS_VARIABLE,
    KUBERNETES_PS_VARIABLE,
)


def is_here(environ: Mapping[str, str]) -> bool:
    """Tell whether this is a pod of such a Job. Pods of other Indexed Jobs may not form a cluster."""
    return INDEX_VARIABLE in environ and KUBERNETES_WORKERS_VARIABLE in environ


def resolve(environ: Mapping[str, str], base_port: int | None) -> Task:
    """Find the task that ``JOB_COMPLETION_INDEX`` names. Raises LaunchError for invalid variables."""
    name = environ.get(KUBERNETES_NAME_VARIABLE, "")
    role = environ.get(KUBERNETES_ROLE_VARIABLE, "")
    sizes = {
        "worker": _number(environ, KUBERNETES_WORKERS_VARIABLE, least=1),
        "ps": _number(environ, KUBERNETES_PS_VARIABLE) if KUBERNETES_PS_VARIABLE in environ else 0,
    }
    index = _number(environ, INDEX_VARIABLE)
    kind = environ.get(KUBERNETES_KIND_VARIABLE, "")
    if not name or role not in sizes or index >= sizes[role] or kind not in ("", JOB_SET):
        raise _wrong(
            ", ".join(f"{variable}={environ[variable]!r}" for variable in VARIABLES if variable in environ)
        )
    port = base_port or DEFAULT_PORT
    jobs = {
        job: [f"{job_name(name, job, kind)}-{i}.{name}:{port}" for i in range(n)] for job, n in sizes.items()
    }
    return Cluster(**jobs).task(role, index)


def gpus(environ: Mapping[str, str]) -> dict[str, str]:
    """Return nothing, because a container sees only the GPUs of its resource limits."""
    return {}


def job_name(name: str, role: str, kind: str = "") -> str:
    """Return the name of the Job whose pods have this role. Its pods' hosts are ``JOB-INDEX.NAME``."""
    if kind == JOB_SET:
        return f"{name}-{role}-0"
    return name if role == "worker" else f"{name}-{role}"


def _number(environ: Mapping[str, str], name: str, least: int = 0) -> int:
    if (number := whole_number(environ[name].strip(), _MOST_PODS, least=least)) is None:
        raise _wrong(f"{name}={environ[name]!r}")
    return number


def _wrong(found: str) -> LaunchError:
    return LaunchError(
        "The variables of a pod must say its place in its Job.",
        found=found,
        fix="Write the manifest with `tfmuster manifest kubernetes`, and keep its variables unchanged.",
        reason="kubernetes",
    )

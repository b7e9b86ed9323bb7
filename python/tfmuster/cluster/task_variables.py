"""The environment variables that tell a worker's process its task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..environment import IS_CHIEF_VARIABLE
from ..net.addresses import split_address
from .spec import Cluster, Task
from .tf_config import tf_config_json
from .together import TRAINING


def task_variables(task: Task, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a task's process, whose other variables are ``environ``."""
    variables = {"TF_CONFIG": tf_config_json(task), IS_CHIEF_VARIABLE: str(int(task.is_chief))}
    if environ.get("KERAS_BACKEND", "").lower() == "jax":
        variables |= jax_variables(task)
    return variables


def hosts_of(cluster: Cluster) -> list[str]:
    """Return the hosts of a cluster's addresses, each once, IPv6 without brackets."""
    addresses = (address for job in cluster.jobs.values() for address in job)
    return list(dict.fromkeys(split_address(address)[0] for address in addresses))


@dataclass(frozen=True)
class JaxProcess:
    """The place of a task among the processes of JAX.

    Attributes
    ----------
    addresses : tuple of str
        Addresses of all tasks that train; the chief's is the first.
    index : int
        Index of this process.
    """

    addresses: tuple[str, ...]
    index: int

    @property
    def coordinator(self) -> str:
        """Address at which JAX's coordinator listens, in process 0.

        It is the chief's own address. That port has been checked, the rendezvous leaves it before it lets
        the program continue, and TensorFlow does not use it in such a job.
        """
        return self.addresses[0]

    @property
    def processes(self) -> int:
        """Number of processes."""
        return len(self.addresses)


def jax_process(task: Task) -> JaxProcess | None:
    """Return a task's place among the processes of JAX; None for a task that does not train."""
    if task.type not in TRAINING:
        return None
    jobs = task.cluster.jobs
    places = [(kind, index) for kind in TRAINING for index in range(len(jobs.get(kind, ())))]
    addresses = tuple(jobs[kind][index] for kind, index in places)
    return JaxProcess(addresses, places.index((task.type, task.index)))


def jax_variables(task: Task) -> dict[str, str]:
    """Return what ``keras.distribution.initialize()`` reads on JAX; nothing if the task does not train."""
    place = jax_process(task)
    if place is None:
        return {}
    return {
        "KERAS_DISTRIBUTION_JOB_ADDRESSES": ",".join(place.addresses),
        "KERAS_DISTRIBUTION_NUM_PROCESSES": str(place.processes),
        "KERAS_DISTRIBUTION_PROCESS_ID": str(place.index),
        "JAX_CPU_COLLECTIVES_IMPLEMENTATION": "gloo",
    }

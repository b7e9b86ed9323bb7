"""The environment variables that tell a worker's process its task."""

from __future__ import annotations

from collections.abc import Mapping

from ..environment import IS_CHIEF_VARIABLE
from .spec import Task
from .tf_config import tf_config_json
from .together import TRAINING


def task_variables(task: Task, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a task's process, whose other variables are ``environ``."""
    variables = {"TF_CONFIG": tf_config_json(task), IS_CHIEF_VARIABLE: str(int(task.is_chief))}
    if environ.get("KERAS_BACKEND", "").lower() == "jax":
        variables |= jax_variables(task)
    return variables


def jax_variables(task: Task) -> dict[str, str]:
    """Return what ``keras.distribution.initialize()`` reads on JAX; nothing for a task that does not train.

    JAX's coordinator listens at the chief's own address. That port has been checked, the rendezvous leaves it
    before it lets the program continue, and TensorFlow does not use it in such a job.
    """
    if task.type not in TRAINING:
        return {}
    jobs = task.cluster.jobs
    places = [(kind, index) for kind in TRAINING for index in range(len(jobs.get(kind, ())))]
    return {
        "KERAS_DISTRIBUTION_JOB_ADDRESSES": ",".join(jobs[kind][index] for kind, index in places),
        "KERAS_DISTRIBUTION_NUM_PROCESSES": str(len(places)),
        "KERAS_DISTRIBUTION_PROCESS_ID": str(places.index((task.type, task.index))),
        "JAX_CPU_COLLECTIVES_IMPLEMENTATION": "gloo",
    }

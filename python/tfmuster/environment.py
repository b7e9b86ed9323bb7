"""The environment variables that tfmuster reads and writes.

No other module spells their names, except ``worker/site/sitecustomize.py``, which imports nothing.
"""

from __future__ import annotations

import os
from typing import Any, Final

from .errors import TfmusterError

#: How all of them begin. A launcher passes its user's on to workers on other machines.
PREFIX: Final = "TFMUSTER_"

# What a launcher tells each worker.

#: The job's random name, by which everything that the job has started is found again.
JOB_VARIABLE: Final = "TFMUSTER_JOB"

#: The run directory, absolute, where the worker keeps its state, metrics and checkpoints.
RUN_DIR_VARIABLE: Final = "TFMUSTER_RUN_DIR"

#: The job's secret, with which all that its processes send each other is sealed.
TOKEN_VARIABLE: Final = "TFMUSTER_TOKEN"

#: The file to which an uncaught Python exception is written, with its time.
ERROR_FILE_VARIABLE: Final = "TFMUSTER_ERROR_FILE"

#: How often the whole job may be restarted after a failure, and how often it has been.
MAX_RESTARTS_VARIABLE: Final = "TFMUSTER_MAX_RESTARTS"
RESTART_VARIABLE: Final = "TFMUSTER_RESTART"

#: After how many steps `fit` ends, in a trial of ``tfmuster tune``.
TRIAL_STEPS_VARIABLE: Final = "TFMUSTER_TRIAL_STEPS"

# What users set.

#: How long to wait for everyone to arrive, seconds.
START_TIMEOUT_VARIABLE: Final = "TFMUSTER_START_TIMEOUT"

#: ``0``: start without a rendezvous.
RENDEZVOUS_VARIABLE: Final = "TFMUSTER_RENDEZVOUS"

#: ``0``: leave Keras as it is.
KERAS_COMPAT_VARIABLE: Final = "TFMUSTER_KERAS_COMPAT"

#: The data type of the gradients that workers send each other.
GRADIENT_DTYPE_VARIABLE: Final = "TFMUSTER_GRADIENT_DTYPE"

#: How many steps a worker runs in one call, where the model does not say.
STEPS_PER_EXECUTION_VARIABLE: Final = "TFMUSTER_STEPS_PER_EXECUTION"

#: The file or folder that MNIST is read from.
MNIST_VARIABLE: Final = "TFMUSTER_MNIST"

#: The first port of each machine, where an engine places the tasks.
BASE_PORT_VARIABLE: Final = "TFMUSTER_BASE_PORT"

#: ssh's configuration file, instead of the user's own.
SSH_CONFIG_VARIABLE: Final = "TFMUSTER_SSH_CONFIG"

#: The ``mpirun`` to call.
MPIRUN_VARIABLE: Final = "TFMUSTER_MPIRUN"

# What a batch job tells the launcher in it.

#: The name of the backend by which tfmuster has submitted the job.
SUBMITTED_VARIABLE: Final = "TFMUSTER_SUBMITTED"

# What a manifest of Kubernetes tells each pod.

#: The name of the workers' Job and of the headless Service.
KUBERNETES_NAME_VARIABLE: Final = "TFMUSTER_KUBERNETES_NAME"

#: The type of the pod's task: ``worker`` or ``ps``.
KUBERNETES_ROLE_VARIABLE: Final = "TFMUSTER_KUBERNETES_ROLE"

#: How many workers and parameter servers the job has.
KUBERNETES_WORKERS_VARIABLE: Final = "TFMUSTER_KUBERNETES_WORKERS"
KUBERNETES_PS_VARIABLE: Final = "TFMUSTER_KUBERNETES_PS"

#: Time for everyone to arrive, unless told otherwise, seconds.
DEFAULT_SECONDS: Final = 60.0


def start_timeout(timeout: float | None = None) -> float:
    """The time for everyone to arrive, in seconds: the argument, else ``TFMUSTER_START_TIMEOUT``, else 60.

    Raises
    ------
    TfmusterError
        It is not a positive number.
    """
    given: Any = os.environ.get(START_TIMEOUT_VARIABLE, DEFAULT_SECONDS) if timeout is None else timeout
    try:
        seconds = float(given)
    except (TypeError, ValueError):
        seconds = 0.0
    if not 0 < seconds < 1e9:
        where = START_TIMEOUT_VARIABLE if timeout is None else "timeout"
        raise TfmusterError(
            f"{where} must be a positive number of seconds.",
            found=repr(given),
            fix="give a number such as 60",
        )
    return seconds

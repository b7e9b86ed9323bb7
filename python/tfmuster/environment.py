"""Define the environment variables that tfmuster reads and writes.

Other modules import the names from here, except ``worker/site/sitecustomize.py``, which imports nothing.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import Final

from .errors import TfmusterError
from .words import Value

#: Prefix of all names. A launcher sends the user's variables with this prefix to workers on other machines.
PREFIX: Final = "TFMUSTER_"

# Set by the launcher for each worker.

#: The job's random name. All processes of the job are found by it.
JOB_VARIABLE: Final = "TFMUSTER_JOB"

#: The absolute path of the run directory, with the worker's state, metrics and checkpoints.
RUN_DIR_VARIABLE: Final = "TFMUSTER_RUN_DIR"

#: The job's secret, which authenticates the messages between its processes.
TOKEN_VARIABLE: Final = "TFMUSTER_TOKEN"

#: The file to which an uncaught Python exception is written, with its time.
ERROR_FILE_VARIABLE: Final = "TFMUSTER_ERROR_FILE"

#: Whether the worker is the chief, which writes files: ``1`` or ``0``.
IS_CHIEF_VARIABLE: Final = "TFMUSTER_IS_CHIEF"

#: How many times the whole job may be restarted after a failure, and how many times it has been.
MAX_RESTARTS_VARIABLE: Final = "TFMUSTER_MAX_RESTARTS"
RESTART_VARIABLE: Final = "TFMUSTER_RESTART"

#: The seed of the job's random number generators. Users may set it for tasks that they start themselves.
SEED_VARIABLE: Final = "TFMUSTER_SEED"

#: The process id of the worker's program. The processes that it starts are not the worker.
PROCESS_VARIABLE: Final = "TFMUSTER_PROCESS"

#: The task's TF_CONFIG as the launcher has set it; the program may set another one.
TF_CONFIG_VARIABLE: Final = "TFMUSTER_TF_CONFIG"

#: Set for a spare process, which waits before it becomes a worker.
WARM_VARIABLE: Final = "TFMUSTER_WARM"

#: Seed of the hashes of Python's texts, which decide the order of a set. It is one of Python's own variables.
HASH_SEED: Final = "PYTHONHASHSEED"

#: Set in a job that a worker of another job has launched.
NESTED_VARIABLE: Final = "TFMUSTER_NESTED"

#: Number of steps after which `fit` ends in a trial of ``tfmuster speed``.
TRIAL_STEPS_VARIABLE: Final = "TFMUSTER_TRIAL_STEPS"

#: Variables of one worker in one attempt of a job, which no other process takes over.
OF_ONE_WORKER: Final = frozenset(
    (
        *(JOB_VARIABLE, RUN_DIR_VARIABLE, TOKEN_VARIABLE, ERROR_FILE_VARIABLE, IS_CHIEF_VARIABLE),
        *(MAX_RESTARTS_VARIABLE, RESTART_VARIABLE, SEED_VARIABLE, TF_CONFIG_VARIABLE),
    )
)

# Set by users.

#: Time limit for all tasks to start, in seconds.
START_TIMEOUT_VARIABLE: Final = "TFMUSTER_START_TIMEOUT"

#: How long workers may wait for one that does not move, in seconds; ``0`` for any time.
STALL_TIMEOUT_VARIABLE: Final = "TFMUSTER_STALL_TIMEOUT"

#: How long the workers may take to write a checkpoint after a shutdown signal, in seconds.
GRACE_VARIABLE: Final = "TFMUSTER_GRACE"

#: Where checkpoints are, if not in the run directory.
CHECKPOINT_DIR_VARIABLE: Final = "TFMUSTER_CHECKPOINT_DIR"

#: A shell command that succeeds once this machine is about to be reclaimed.
NOTICE_COMMAND_VARIABLE: Final = "TFMUSTER_NOTICE_COMMAND"

#: ``0`` turns the rendezvous off.
RENDEZVOUS_VARIABLE: Final = "TFMUSTER_RENDEZVOUS"

#: ``1`` leaves TensorFlow's port open to everybody who reaches it.
OPEN_PORT_VARIABLE: Final = "TFMUSTER_OPEN_PORT"

#: ``0`` leaves Keras unchanged.
KERAS_COMPAT_VARIABLE: Final = "TFMUSTER_KERAS_COMPAT"

#: ``1`` refuses a multi-worker strategy in a process of which nothing says that it is a worker.
STRICT_VARIABLE: Final = "TFMUSTER_STRICT"

#: ``1`` lets each worker of a job train a model of its own.
INDEPENDENT_VARIABLE: Final = "TFMUSTER_INDEPENDENT"

#: ``1`` lets the workers of a job launch jobs of their own.
ALLOW_NESTED_VARIABLE: Final = "TFMUSTER_ALLOW_NESTED"

#: ``1`` makes a multi-worker strategy the default strategy of every worker's program.
DISTRIBUTE_VARIABLE: Final = "TFMUSTER_DISTRIBUTE"

#: ``1`` multiplies, with ``TFMUSTER_DISTRIBUTE``, the batch size of ``fit`` by the number of workers.
SCALE_BATCH_VARIABLE: Final = "TFMUSTER_SCALE_BATCH"

#: The number of workers that a job with ``min_workers`` has if no host is lost.
FULL_WORKERS_VARIABLE: Final = "TFMUSTER_FULL_WORKERS"

#: The data type of the gradients that workers send each other.
GRADIENT_DTYPE_VARIABLE: Final = "TFMUSTER_GRADIENT_DTYPE"

#: Whether BatchNormalization normalizes with the rows of all workers: ``synchronized`` or ``local``.
BATCH_NORM_VARIABLE: Final = "TFMUSTER_BATCH_NORM"

#: Whether the first step is compared with that of one process: ``auto``, ``always`` or ``never``.
VERIFY_VARIABLE: Final = "TFMUSTER_VERIFY"
VERIFICATIONS: Final = ("auto", "always", "never")

#: How the workers' CPUs sum gradients: ``auto`` or ``tensorflow``.
COMMUNICATION_VARIABLE: Final = "TFMUSTER_COMMUNICATION"

#: Number of steps that a worker runs in one call, unless the model sets it.
STEPS_PER_EXECUTION_VARIABLE: Final = "TFMUSTER_STEPS_PER_EXECUTION"

#: The file or folder with MNIST.
MNIST_VARIABLE: Final = "TFMUSTER_MNIST"

#: The first port of the tasks on each machine, if an engine places them.
BASE_PORT_VARIABLE: Final = "TFMUSTER_BASE_PORT"

#: The configuration file of ssh, in place of the user's own.
SSH_CONFIG_VARIABLE: Final = "TFMUSTER_SSH_CONFIG"

#: The ``mpirun`` program to use.
MPIRUN_VARIABLE: Final = "TFMUSTER_MPIRUN"

#: How much a model or an ``.npz`` file may unpack to, in GB.
UNPACKED_GB_VARIABLE: Final = "TFMUSTER_UNPACKED_GB"

# Set in a batch job for the launcher in it.

#: The name of the backend with which tfmuster submitted the job.
SUBMITTED_VARIABLE: Final = "TFMUSTER_SUBMITTED"

# Set in each pod by a Kubernetes manifest.

#: The name of the workers' Job and of the headless Service.
KUBERNETES_NAME_VARIABLE: Final = "TFMUSTER_KUBERNETES_NAME"

#: ``jobset`` if the pods are those of a JobSet, which names them in another way.
KUBERNETES_KIND_VARIABLE: Final = "TFMUSTER_KUBERNETES_KIND"

#: The type of the pod's task: ``worker`` or ``ps``.
KUBERNETES_ROLE_VARIABLE: Final = "TFMUSTER_KUBERNETES_ROLE"

#: The number of workers and of parameter servers.
KUBERNETES_WORKERS_VARIABLE: Final = "TFMUSTER_KUBERNETES_WORKERS"
KUBERNETES_PS_VARIABLE: Final = "TFMUSTER_KUBERNETES_PS"

#: Default time limit for all tasks to start, in seconds.
DEFAULT_SECONDS: Final = 60.0

#: Default of the time that workers may wait for one that does not move, in seconds.
DEFAULT_STALL_SECONDS: Final = 300.0

#: Default of the time for a checkpoint after a shutdown signal, in seconds.
DEFAULT_GRACE_SECONDS: Final = 30.0

#: Largest seed that R, NumPy and TensorFlow accept alike.
LARGEST_SEED: Final = 2**31 - 1


def given_seed(environ: Mapping[str, str] | None = None) -> int | None:
    """Return the job's seed in ``TFMUSTER_SEED``; None if it is not set.

    Raises TfmusterError if it is not a whole number from 0 to 2147483647.
    """
    text = (os.environ if environ is None else environ).get(SEED_VARIABLE, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= LARGEST_SEED):
        raise TfmusterError(
            f"{SEED_VARIABLE} must be a whole number from 0 to {LARGEST_SEED}.",
            found=str(Value(text)),
            fix="give a number such as 1, or unset it",
        )
    return int(text)


def given_hash_seed(environ: Mapping[str, str]) -> str | None:
    """Return the seed of Python's hashes that an environment names; None if each process draws its own."""
    seed = environ.get(HASH_SEED, "")
    return None if seed in ("", "random") else seed


def is_on(variable: str, environ: Mapping[str, str] | None = None) -> bool:
    """Return whether a switch is on: its variable is set, and neither empty nor ``0`` nor ``false``."""
    value = (os.environ if environ is None else environ).get(variable, "")
    return value.strip().lower() not in ("", "0", "false")


def start_timeout(timeout: float | None = None) -> float:
    """Return the time limit for all tasks to start, in seconds.

    It is the argument, otherwise ``TFMUSTER_START_TIMEOUT``, otherwise 60. Raises TfmusterError if it is not
    a positive number.
    """
    return _number(timeout, "timeout", START_TIMEOUT_VARIABLE, DEFAULT_SECONDS)


def full_workers(here: int) -> int:
    """Return by how many workers a batch size of each worker is multiplied, of which there are `here` now.

    A job with ``min_workers`` keeps its batches when hosts are lost.
    """
    with contextlib.suppress(ValueError):
        return max(here, int(os.environ.get(FULL_WORKERS_VARIABLE, here)))
    return here


def grace(seconds: float | None = None) -> float:
    """Return how long the workers may take to write a checkpoint after a shutdown signal, in seconds.

    It is the argument, otherwise ``TFMUSTER_GRACE``, otherwise 30. Raises TfmusterError if it is not a
    positive number.
    """
    return _number(seconds, "grace", GRACE_VARIABLE, DEFAULT_GRACE_SECONDS)


def stall_timeout(timeout: float | None = None) -> float:
    """Return how long workers may wait for one that does not move, in seconds; ``inf`` for any time.

    It is the argument, otherwise ``TFMUSTER_STALL_TIMEOUT``, otherwise 300. In both, 0 means any time. Raises
    TfmusterError if it is negative, or not a number.
    """
    takes = "a number of seconds, or 0 for no limit"
    variable, default = STALL_TIMEOUT_VARIABLE, DEFAULT_STALL_SECONDS
    seconds = _number(timeout, "stall_timeout", variable, default, takes=takes, zero=True)
    return seconds or float("inf")


def unpacked_limit() -> float:
    """Return how much a model or an ``.npz`` file may unpack to, in bytes: ``TFMUSTER_UNPACKED_GB``, or 1 GB.

    Raises TfmusterError if it is not a positive number.
    """
    takes, example = "a positive number of GB", "4, or unset it"
    return 1e9 * _number(None, "", UNPACKED_GB_VARIABLE, 1.0, takes=takes, example=example)


def _number(
    argument: float | None,
    name: str,
    variable: str,
    default: float,
    *,
    takes: str = "a positive number of seconds",
    example: str = "",
    zero: bool = False,
) -> float:
    """Return a number: the argument, otherwise the variable, otherwise the default. `zero` allows 0."""
    value = os.environ.get(variable, default) if argument is None else argument
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = -1.0
    if isinstance(value, bool) or not (0 < number < 1e9 or (zero and number == 0)):
        raise TfmusterError(
            f"{variable if argument is None else name} must be {takes}.",
            found=str(Value(value)),
            fix=f"give a number such as {example or f'{default:g}'}",
        )
    return number


#: Fewest characters of the job's secret. With one frame, secrets can be tried as fast as a machine computes.
LEAST_TOKEN: Final = 16


def job_token(token: str | None = None) -> str | None:
    """Return the job's secret: the argument, otherwise ``TFMUSTER_TOKEN``, otherwise None.

    Raises TfmusterError if it is shorter than 16 characters.
    """
    token = token or os.environ.get(TOKEN_VARIABLE) or None
    if token is not None and len(token) < LEAST_TOKEN:
        raise TfmusterError(
            f"{TOKEN_VARIABLE} must have at least {LEAST_TOKEN} characters: shorter ones can be guessed.",
            found=f"{len(token)} characters",
            fix=f"export {TOKEN_VARIABLE}=$(openssl rand -hex 16) and give it to every task",
        )
    return token

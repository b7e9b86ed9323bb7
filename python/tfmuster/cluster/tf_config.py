"""Read and write TF_CONFIG, which tells TensorFlow the cluster and its own task, and related variables."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import orjson

from ..environment import (
    INDEPENDENT_VARIABLE,
    IS_CHIEF_VARIABLE,
    LARGEST_SEED,
    PROCESS_VARIABLE,
    SEED_VARIABLE,
    TF_CONFIG_VARIABLE,
    given_seed,
    is_on,
)
from ..errors import ClusterError, TfmusterError
from ..options.hints import Hint
from ..system.say import say
from ..system.user_code import script_folder
from .findings import Findings
from .rules import examine_document
from .spec import TRAINING, Cluster, Task, checked_cluster, checked_task, raise_or_warn, training_tasks

#: Linux allows 32 pages for one variable of a new process, with its name and terminator (execve(2)).
LONGEST_IN_ENVIRONMENT = 32 * 4096 - len("TF_CONFIG=") - 1


def tf_config_json(task: Task, *, pretty: bool = False) -> str:
    """Write the TF_CONFIG text of one task.

    Parameters
    ----------
    task : Task
        The task to describe.
    pretty : bool
        Whether to indent by two blanks, for reading. Default: compact.

    Returns
    -------
    str
        JSON with the keys ``cluster`` and ``task``, in this order, and the jobs in the order of
        :data:`~tfmuster.cluster.rules.JOBS`.

    Examples
    --------
    >>> tf_config_json(Cluster(worker=["a:1", "b:1"]).task("worker", 1))
    '{"cluster":{"worker":["a:1","b:1"]},"task":{"type":"worker","index":1}}'
    """
    return next(tf_config_texts([task], pretty=pretty))


def tf_config_texts(tasks: Iterable[Task], *, pretty: bool = False) -> Iterator[str]:
    """Yield the TF_CONFIG text of each task. The common part of tasks of one cluster is encoded once."""
    option = orjson.OPT_INDENT_2 if pretty else 0
    # How many characters end and begin an object; both parts lose them where they are joined.
    closing, opening = (2, 1) if pretty else (1, 1)
    cluster: Cluster | None = None
    head = ""
    for task in tasks:
        if task.cluster is not cluster:
            cluster = task.cluster
            head = orjson.dumps({"cluster": cluster.jobs}, option=option)[:-closing].decode() + ","
        yield head + orjson.dumps({"task": task.to_dict()}, option=option)[opening:].decode()


def parse_tf_config(text: str | bytes) -> Task:
    """Read the task that a TF_CONFIG text describes, with its cluster.

    A single address instead of a list, or an index given as text, is repaired with a
    :class:`~tfmuster.errors.TfmusterWarning`.

    Raises
    ------
    ClusterError
        The text is unusable. The field ``findings`` lists all findings.
    """
    from .documents import parse_document

    findings = Findings()
    document = parse_document(text, findings)
    place = None
    if not findings.failed:
        jobs, place = examine_document(document, findings, cluster_key_needed=True, task_wanted="yes")
    raise_or_warn(findings)
    assert place is not None  # otherwise examine_document has noted an error
    return checked_task(*place, checked_cluster(jobs))


def use_tf_config(task: Task) -> str:
    """Set TF_CONFIG of this process, and of the processes that it starts, to a task.

    Call this function before you make a strategy: TensorFlow reads TF_CONFIG only then. In R, call the R
    function of the same name; ``Sys.setenv`` doesn't reach a Python that is already running.

    Returns
    -------
    str
        The TF_CONFIG text.
    """
    text = tf_config_json(task)
    findings = Findings()
    note_if_too_long(text, findings)
    raise_or_warn(findings)
    os.environ["TF_CONFIG"] = text
    return text


def keep_tf_config() -> None:
    """Undo what the program of a worker has done to the TF_CONFIG of its launcher, and print so once.

    Without a launcher's, adopt a TF_CONFIG that a program in R has set after Python started.
    """
    if os.environ.get(PROCESS_VARIABLE) != str(os.getpid()):
        return
    launched, now = os.environ.get(TF_CONFIG_VARIABLE), os.environ.get("TF_CONFIG")
    if "rpytools" in sys.modules:
        now = tf_config_in_r()
    if launched and now != launched:
        _say_once("the program sets TF_CONFIG itself; the one of this job is used instead.")
    if launched or now:
        os.environ["TF_CONFIG"] = launched or now or ""


def tf_config_in_r() -> str:
    """Return the TF_CONFIG of R around this Python, which ``Sys.setenv`` changes; empty if it is not set."""
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_char_p
    return (getenv(b"TF_CONFIG") or b"").decode()


def current_task(environ: Mapping[str, str] | None = None) -> Task | None:
    """Return the task that TF_CONFIG names, or None without a cluster: TF_CONFIG is unset, blank or ``{}``.

    Raises
    ------
    ClusterError
        TF_CONFIG can't be used.
    """
    if environ is None:
        keep_tf_config()
    text = (os.environ if environ is None else environ).get("TF_CONFIG", "").strip()
    try:
        return None if text in ("", "{}") else parse_tf_config(text)
    except ClusterError as error:
        # Users who did not set TF_CONFIG themselves must learn where the error is.
        described, variable = "The cluster description", "The environment variable TF_CONFIG"
        error.message = error.message.replace(described, variable, 1)
        error.fix = f"{error.fix}; or unset TF_CONFIG" if error.fix else "or unset TF_CONFIG"
        raise


def folder_without_run() -> Path | None:
    """Return where a task without a run directory keeps its files; None outside of a cluster."""
    return None if current_task() is None else script_folder()


def note_if_too_long(text: str, findings: Findings) -> None:
    """Note a TF_CONFIG that is too long for the environment of a child process."""
    if len(text) > LONGEST_IN_ENVIRONMENT:
        findings.note("too-long-for-environment", "TF_CONFIG", f"{len(text)} bytes")


def is_chief() -> bool:
    """Tell whether this process is the chief of its cluster, or has no cluster."""
    with contextlib.suppress(TfmusterError):
        task = current_task()
        return task is None or task.is_chief
    return False


def workers_together() -> int:
    """Return how many workers must train one model together; 0 if this process may train its own.

    With ``TFMUSTER_INDEPENDENT`` it may, and the chief prints so once.
    """
    workers = workers_here()
    if workers < 2 or not is_on(INDEPENDENT_VARIABLE):
        return workers
    if is_chief():
        _say_once(f"each of the {workers} workers trains a model of its own ({Hint('independent', True)})")
    return 0


def workers_here() -> int:
    """Return the number of workers of the job that train, this process included; 0 if it does not train.

    It is 0 with an invalid TF_CONFIG too, an error only for a program that makes a strategy.
    """
    return _workers(os.environ.get("TF_CONFIG", "").strip())


@functools.lru_cache(maxsize=4)
def _workers(text: str) -> int:
    if text in ("", "{}"):
        return 0
    try:
        task = parse_tf_config(text)
    except ClusterError:
        return 0
    return len(training_tasks(task.cluster)) if task.type in TRAINING else 0


@functools.cache
def _say_once(text: str) -> None:
    say(f"tfmuster: {text}")


def task_variables(task: Task, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a task's process, whose other variables are ``environ``."""
    variables = {"TF_CONFIG": tf_config_json(task), IS_CHIEF_VARIABLE: str(int(task.is_chief))}
    if (seed := given_seed(environ)) is not None:
        variables[SEED_VARIABLE] = str(seed_of_task(task, seed, environ))
    place = jax_process(task) if environ.get("KERAS_BACKEND", "").lower() == "jax" else None
    if place is not None:
        # What keras.distribution.initialize() reads on JAX.
        variables |= {
            "KERAS_DISTRIBUTION_JOB_ADDRESSES": ",".join(place.addresses),
            "KERAS_DISTRIBUTION_NUM_PROCESSES": str(place.processes),
            "KERAS_DISTRIBUTION_PROCESS_ID": str(place.index),
            "JAX_CPU_COLLECTIVES_IMPLEMENTATION": "gloo",
        }
    return variables


def seed_of_task(task: Task, job_seed: int, environ: Mapping[str, str]) -> int:
    """Return the seed of a task's generators: the job's, and another for each further independent worker."""
    if task.type not in TRAINING or task.is_chief or not is_on(INDEPENDENT_VARIABLE, environ):
        return job_seed
    digest = hashlib.sha256(f"{job_seed} {task.name}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % (LARGEST_SEED + 1)


@dataclass(frozen=True)
class JaxProcess:
    """The place of a task among the processes of JAX: all addresses, the chief's first, and its index."""

    addresses: tuple[str, ...]
    index: int

    @property
    def coordinator(self) -> str:
        """Address of JAX's coordinator in process 0: the chief's own address.

        That port has been checked, the rendezvous leaves it before it lets the program continue, and
        TensorFlow does not use it in such a job.
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
    tasks = training_tasks(task.cluster)
    index = [other.name for other in tasks].index(task.name)
    return JaxProcess(tuple(other.address for other in tasks), index)

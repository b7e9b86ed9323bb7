"""Find the cluster and the task of this process in the variables that its launcher has set.

TF_CONFIG comes first: an operator or ``tfmuster launch`` sets it. Without it, this package reads the
variables that MPI, batch systems and Kubernetes give to the processes that they start, with one module for
each. MPI's variables don't name the machines, so its ranks exchange their addresses (:mod:`.mpi_exchange`).

``TFMUSTER_BASE_PORT``  The first port of each machine. A task's port is this number plus its rank on the
machine.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from ...environment import BASE_PORT_VARIABLE
from ...errors import ClusterError, LaunchError
from ...words import Value
from ..spec import Cluster, Task
from ..tf_config import current_task, tf_config_json, use_tf_config
from .batch import BatchJob, whole_number

#: Modules in the order in which they are asked; MPI is first, because an MPI job may run inside the others.
#: Each, or what is named of it, has ``NAME``, ``is_here(environ)``, ``resolve(environ, base_port)`` and
#: ``gpus(environ)``; those of batch systems also have ``batch_job(environ)``.
_ENGINES = ("mpi", "slurm", "batch.SGE", "batch.PBS", "batch.LSF", "kubernetes")

_PORT = re.compile(r":[0-9]+$")


def resolve_task(
    environ: Mapping[str, str] | None = None, *, base_port: int | None = None, stay: bool = False
) -> Task | None:
    """Find the task of this process, with its cluster; None if no variable says that it is one of several.

    With ``stay``, this process will call :func:`leave_engine` before it ends successfully: some engines treat
    an end without that call as a failure, and end all tasks. Raises ClusterError if TF_CONFIG is unusable,
    and LaunchError if an engine's variables contradict each other or its tasks can't exchange their
    addresses.
    """
    environ = os.environ if environ is None else environ
    task = current_task(environ)
    engine = None if task is not None else _engine(environ)
    if engine is None:
        return task
    resolved: Task = engine.resolve(environ, _base_port(environ, base_port))
    if not stay:
        leave_engine()
    return resolved


def leave_engine() -> None:
    """Tell the engine, if it needs to know, that this process ends successfully."""
    exchange = sys.modules.get(f"{__name__}.mpi_exchange")
    if exchange is not None:
        exchange.finalize()


def join_engine() -> Task | None:
    """Find the task of this process with :func:`resolve_task`, and set TF_CONFIG and its GPUs."""
    in_tf_config = current_task() is not None
    task = resolve_task()
    if task is not None and not in_tf_config:
        os.environ.update(gpus_here())
        use_tf_config(task)
    return task


def engine_here(environ: Mapping[str, str] | None = None) -> str | None:
    """Return the name of the engine that started this process, such as ``Slurm``, or None."""
    engine = _engine(os.environ if environ is None else environ)
    return None if engine is None else str(engine.NAME)


def batch_job(environ: Mapping[str, str] | None = None) -> BatchJob | None:
    """Return the batch job that this process belongs to, or None."""
    environ = os.environ if environ is None else environ
    for name in _ENGINES:
        # MPI and Kubernetes have none.
        find: Callable[..., BatchJob | None] = getattr(_module(name), "batch_job", lambda _: None)
        if (job := find(environ)) is not None:
            return job
    return None


def gpus_here(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables that keep two tasks of a machine from taking the same GPU.

    It is empty if the engine has already given each task its own GPUs, or if there are too few.
    """
    environ = os.environ if environ is None else environ
    engine = _engine(environ)
    return {} if engine is None else dict(engine.gpus(environ))


def tf_config_from_barrier(barrier: Mapping[str, object], base_port: int = 8000) -> str:
    """Write the TF_CONFIG text of one task inside sparklyr's ``spark_apply(..., barrier = TRUE)``.

    Every partition is a worker. Its host is that of its executor, whose own port is in use. Partition 0 gets
    the port after `base_port`, partition 1 the next, and so on, so that tasks on one machine have different
    ports. These ports must be free on all executors, and open between them.

    Parameters
    ----------
    barrier : mapping
        The argument that sparklyr passes: ``address``, the address of each partition's executor, and
        ``partition``, this task's number, from 0.
    base_port : int
        The first port minus 1.

    Returns
    -------
    str
        The value for the variable TF_CONFIG.

    Raises
    ------
    ClusterError
        The barrier has another form, or its addresses do not form a cluster.
    """
    addresses = barrier.get("address") if isinstance(barrier, Mapping) else None
    partition = barrier.get("partition") if isinstance(barrier, Mapping) else None
    if isinstance(addresses, str):
        # R passes a vector of length 1 as a string.
        addresses = [addresses]
    if (
        not isinstance(addresses, Sequence)
        or not addresses
        or not all(isinstance(address, str) for address in addresses)
        or isinstance(partition, bool)
        or not isinstance(partition, (int, float))
        or partition != int(partition)
    ):
        raise ClusterError(
            "barrier must be what spark_apply(..., barrier = TRUE) gives: addresses and a partition.",
            found=str(Value(barrier))[:200],
            fix="Define function(df, barrier), and pass its second argument to tf_config_from_barrier().",
            findings=[],
        )
    workers = [f"{_host_of(address)}:{base_port + number}" for number, address in enumerate(addresses, 1)]
    return tf_config_json(Cluster(worker=workers).task("worker", int(partition)))


def _engine(environ: Mapping[str, str]) -> Any:
    for name in _ENGINES:
        engine = _module(name)
        if engine.is_here(environ):
            return engine
    return None


def _module(name: str) -> Any:
    name, _, system = name.partition(".")
    module = import_module(f"{__name__}.{name}")
    return getattr(module, system) if system else module


def _base_port(environ: Mapping[str, str], argument: int | None) -> int | None:
    text = environ.get(BASE_PORT_VARIABLE, "").strip() if argument is None else str(argument)
    if not text:
        return None
    if (port := whole_number(text, 65_535, least=1024)) is None:
        raise LaunchError(
            "The base port must be a whole number from 1024 to 65535.",
            found=f"{BASE_PORT_VARIABLE}={text!r}" if argument is None else text,
            fix="Give the first port of a range that is free on every machine, such as 20000.",
            reason="base-port",
        )
    return port


def _host_of(address: str) -> str:
    """Remove the port of an address, and put IPv6 in brackets."""
    bare = address if address.endswith("]") else _PORT.sub("", address)
    return f"[{bare}]" if ":" in bare and not bare.startswith("[") else bare

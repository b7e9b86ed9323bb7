"""Who is in the cluster, and which task is this process? Told by whoever has started it.

TF_CONFIG says so outright, and counts first: an operator or ``tfmuster launch`` has set it. Without it the
variables do that MPI, batch systems and Kubernetes give to the processes that they start. One module each, a
function of the environment; MPI's processes don't know each other's machines, and are asked
(:mod:`.mpi_exchange`).

``TFMUSTER_BASE_PORT``  the first port of each machine; a task's is that plus its rank on the machine
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any, cast

from ...environment import BASE_PORT_VARIABLE
from ...errors import LaunchError
from ..spec import Task
from ..tf_config import current_task, use_tf_config
from .batch_job import BatchJob
from .spark import tf_config_from_barrier

__all__ = [
    "batch_job",
    "engine_here",
    "gpus_here",
    "join_engine",
    "leave_engine",
    "resolve_task",
    "tf_config_from_barrier",
]

#: Modules with ``NAME``, ``is_here(environ)``, ``resolve(environ, base_port)`` and ``gpus(environ)``, those
#: of batch systems with ``batch_job(environ)``, in the order in which they are asked: an MPI job may run
#: inside one of the others.
_ENGINES = ("mpi", "slurm", "sge", "kubernetes")


def resolve_task(
    environ: Mapping[str, str] | None = None, *, base_port: int | None = None, stay: bool = False
) -> Task | None:
    """The task of this process, with its cluster; None if nobody says that it is one of several.

    Parameters
    ----------
    environ : mapping, optional
        The environment to read; this process's unless given.
    base_port : int, optional
        The first port of each machine. Default: ``TFMUSTER_BASE_PORT``, else what the engine's module
        chooses.
    stay : bool
        Whether this process will tell its engine that it ends well, by :func:`leave_engine`. Until then an
        engine that has to be told takes its end for a failure, and ends all tasks.

    Raises
    ------
    ClusterError
        TF_CONFIG is set, but wrong.
    LaunchError
        An engine's variables contradict each other, or its tasks can't learn of one another.
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
    """Tell the engine that this process ends well, if it has to be told."""
    exchange = sys.modules.get(f"{__name__}.mpi_exchange")
    if exchange is not None:
        exchange.finalize()


def join_engine() -> Task | None:
    """The task of this process as :func:`resolve_task` finds it, and its TF_CONFIG and GPUs in force.

    TensorFlow reads both, and so do the processes that this one starts.
    """
    told = current_task() is not None
    task = resolve_task()
    if task is not None and not told:
        os.environ.update(gpus_here())
        use_tf_config(task)
    return task


def engine_here(environ: Mapping[str, str] | None = None) -> str | None:
    """The name of the engine that has started this process, such as ``Slurm``; None if none has."""
    engine = _engine(os.environ if environ is None else environ)
    return None if engine is None else str(engine.NAME)


def batch_job(environ: Mapping[str, str] | None = None) -> BatchJob | None:
    """The batch job that this process belongs to; None if it belongs to none."""
    environ = os.environ if environ is None else environ
    for name in _ENGINES:
        # MPI and Kubernetes have none.
        find = getattr(import_module(f"{__name__}.{name}"), "batch_job", None)
        if find is not None and (found := find(environ)) is not None:
            return cast(BatchJob, found)
    return None


def gpus_here(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """What is to be in the environment so that no two tasks of a machine take the same GPU.

    Nothing, where the engine has given each task its own, or there is no share for each.
    """
    environ = os.environ if environ is None else environ
    engine = _engine(environ)
    return {} if engine is None else dict(engine.gpus(environ))


def _engine(environ: Mapping[str, str]) -> Any:
    for name in _ENGINES:
        engine = import_module(f"{__name__}.{name}")
        if engine.is_here(environ):
            return engine
    return None


def _base_port(environ: Mapping[str, str], given: int | None) -> int | None:
    text = environ.get(BASE_PORT_VARIABLE, "").strip() if given is None else str(given)
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and 1024 <= int(text) <= 65_535):
        raise LaunchError(
            "The base port must be a whole number from 1024 to 65535.",
            found=f"{BASE_PORT_VARIABLE}={text!r}" if given is None else text,
            fix="Give the first of some ports that are free on every machine, such as 20000.",
            reason="base-port",
        )
    return int(text)

"""Start the warm workers of a session: :func:`workers`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..cluster.spec import Cluster
from ..errors import LaunchError
from ..system.gpus import assign_gpus
from ..words import Value, Words
from . import function
from .command import resolve_command
from .engines.local import HOST, placements_of
from .job import Job
from .supervise.restarts import Attempt
from .supervise.spares import WarmWorkers, keep


def workers(number: int, *, idle: float = 300.0) -> WarmWorkers:
    """Keep processes ready that become the workers of ``launch(function)`` on this machine.

    They have TensorFlow and Keras imported, so that a call begins to train in about a second. Each call gets
    processes of its own, which know nothing of the calls before, and others take their places meanwhile.
    Calls without ``workers`` have as many workers. A call with other variables in ``env``, or after the
    session's environment or working directory has changed, starts new processes, and so does one that comes
    before they are ready. A process needs about 500 MB.

    Parameters
    ----------
    number : int
        Number of processes; 0 ends those that wait.
    idle : float
        They end after so many seconds without a call. The next call starts them again. Default: 300.

    Returns
    -------
    WarmWorkers
        The processes. ``close()`` ends them; so do the end of a ``with`` block and the end of the session.

    Raises
    ------
    LaunchError
        If a number is not one, or negative (reason ``warm-workers``).
    """
    return warm_workers([os.fspath(function.WORKER)], number, idle=idle)


def warm_workers(
    command: Sequence[str], number: int, *, idle: float = 300.0, env: Mapping[str, str] | None = None
) -> WarmWorkers:
    """Do what :func:`workers` does for the script with which R or Python calls functions on workers."""
    if type(number) is not int or number < 0 or not isinstance(idle, (int, float)) or not idle > 0:
        raise LaunchError(
            "Warm workers are a whole number of processes, 0 or more, for some seconds.",
            found=Words("{} processes, {} seconds", Value(number), Value(idle)),
            fix="Call workers(2), or workers(0) to end them.",
            reason="warm-workers",
        )
    warm = WarmWorkers(number, resolve_command(command), float(idle))
    keep(warm if number else None)
    if number:
        job = Job(command=command, workers=number, env=dict(env or {}))
        cluster = Cluster(worker=[f"{HOST}:{port}" for port in range(1, number + 1)])
        gpus = assign_gpus(job.kinds, None, {**os.environ, **job.env})
        attempt = Attempt(0, 0)
        warm.prepare(placements_of(job, warm.command, gpus, attempt=attempt, cluster=cluster, folder=Path()))
    return warm

"""Run a program on several workers: ``launch("train.py", workers=4)`` and ``tfmuster launch -n 4 train.py``.

Python functions run, too: ``launch(train, workers=4)`` (:mod:`.function`).

A launcher only *places* commands, each with its TF_CONFIG; :mod:`.supervise` starts and watches them, and
everything that is worth keeping is in the run directory (:mod:`tfmuster.runs`). Each launcher is an engine,
one module of :mod:`.engines`: this machine, other machines through ssh, Spark, MPI, and batch systems.

What every worker process finds in its environment:

``TF_CONFIG``              the cluster, and this worker's place in it
``TFMUSTER_RUN_DIR``       the run directory, absolute
``TFMUSTER_JOB``           the job's random name; by it everything that the job started is found again
``TFMUSTER_TOKEN``         the job's secret, for the rendezvous
``TFMUSTER_ERROR_FILE``    where an uncaught Python exception is noted, with its time
``TFMUSTER_MAX_RESTARTS``  how often all may be started again after a failure
``TFMUSTER_RESTART``       how often they have been
``TFMUSTER_START_TIMEOUT`` how long to wait for everyone, seconds, if the launcher was told
``TFMUSTER_KERAS_COMPAT``  ``0`` if Keras is to be left as it is
``PYTHONPATH``             begins with ``worker/site``, whose ``sitecustomize`` does the last two
"""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..environment import SSH_CONFIG_VARIABLE

__all__ = ["launch"]


def launch(
    script: str | os.PathLike[str] | Callable[..., Any],
    *args: Any,
    workers: int | None = None,
    ps: int = 0,
    chief: bool = False,
    evaluator: bool = False,
    backend: str | None = None,
    backend_options: Sequence[str] = (),
    master: str | None = None,
    spark: Any = None,
    hosts: str | None = None,
    copy: bool = False,
    files: Sequence[str | os.PathLike[str]] = (),
    remote_python: str | None = None,
    env: Mapping[str, str] | None = None,
    quiet: bool = False,
    only_chief: bool = False,
    name: str | None = None,
    run_dir: str | os.PathLike[str] | None = None,
    keras_compat: bool = True,
    max_restarts: int = 0,
    start_timeout: float | None = None,
    gpus_per_worker: int | None = None,
    wait: bool = True,
    strategy: str = "multi_worker_mirrored",
) -> Any:
    """Run a script or a function on several workers, of this machine or of others.

    A function is called by a fresh Python on each worker. What it uses of its module goes along, and of the
    ``strategy`` it gets one made for it if it has an argument of that name. It may return what pickle takes,
    a Keras model, which arrives as a model (the chief's; None from the others), and a Keras history, which
    arrives as its dict; also inside lists and dicts.

    Parameters
    ----------
    script : str, path or callable
        A ``.py`` script is run by this Python, an ``.R`` script by ``Rscript`` with this Python for
        reticulate; anything else is a command, looked up on PATH. The script needs to know nothing of
        tfmuster. Or a function.
    *args
        Its arguments.
    workers, ps : int
        How many workers and parameter servers. Default: 2 workers; with hosts, one per slot.
    chief, evaluator : bool
        Whether there are also a chief and an evaluator. Without a chief, worker 0 is it.
    backend : str, optional
        What starts the processes: ``"local"``, ``"ssh"``, ``"spark"``, ``"mpi"``, or a batch
        system such as ``"slurm"``; ``tfmuster launch --help`` lists all. Unless given, ssh if there are
        hosts, else this machine.
    backend_options : sequence of str
        Settings of the backend's own: of Spark ``"spark.executor.memory=4g"``, of mpirun ``"--map-by node"``,
        of sbatch ``"--partition=gpu"``; see docs/spark.md, docs/mpi.md and docs/slurm.md.
    master : str, optional
        Spark: the URL of a master, ``"spark://node1:7077"`` or ``"local[4]"``, for a session for this job.
    spark : SparkSession, optional
        Spark: a session that is there already.
    hosts : str, optional
        Other machines and how many tasks each takes, ``"node1:2,node2:2"``, reached through ssh; see
        docs/ssh.md.
    copy : bool
        Whether the script is sent to the hosts; else it is there, at the same path.
    files : sequence of path
        Files and folders to send along with the script, for example modules and data. They keep their place
        in the working directory, which is a folder of its own for each worker then, and removed afterwards.
    remote_python : str, optional
        The Python of the hosts that has tfmuster; the path of this one unless given.
    env : mapping, optional
        More environment variables for every process.
    quiet, only_chief : bool
        Show nothing but a failure; show the chief's lines only.
    name : str, optional
        What the run is called; the script's name without extension unless given.
    run_dir : path, optional
        The run directory; ``runs/<UTC time>-<name>`` unless given.
    keras_compat : bool
        Whether Keras 3 is made to work under MultiWorkerMirroredStrategy.
    max_restarts : int
        How often all are started again after a failure, in the same run directory, from its last checkpoint
        (:func:`tfmuster.checkpoint_callback`). Bad usage and bad input are not tried again.
    start_timeout : float, optional
        How long to wait for everyone to arrive, seconds; ``TFMUSTER_START_TIMEOUT``, else 60.
    gpus_per_worker : int, optional
        How many of its machine's GPUs each worker sees, and no other worker; 0: none. Unless given, one, if a
        machine has as many GPUs as workers; else all workers see all.
    wait : bool
        False returns as soon as the workers run, or a batch system has the job; they go on when this session
        ends.
    strategy : str
        Functions only: the name of the strategy that they get, see :func:`tfmuster.strategy`.

    Returns
    -------
    Run or Values
        Of a script, and with ``wait=False``, the run directory, with ``status()``, ``logs()``, ``history()``,
        ``model()``, ``values()``, ``wait()`` and ``stop()``. Of a function a dict of each worker's value, by
        names such as ``"worker 0"``, whose attribute ``run`` is the run.

    Raises
    ------
    LaunchError
        The program is not there, a number makes no sense, or a host can't take part.
    WorkerError
        A worker failed, after the last restart; the fields say which, when and why. Only with ``wait``. Of a
        function, its own exception is the cause, if it can be pickled.
    """
    from ..runs.layout import CALL
    from ..runs.lifecycle import claim_call
    from ..runs.values import error_of
    from . import function
    from .detached import start_detached
    from .engines.base import Where
    from .engines.registry import engine_for
    from .job import Job, workers_for
    from .remote.files import place_of

    claim = None
    if callable(script):
        name = name or function.name_of(script)
        claim = claim_call(name, run_dir)
    try:
        if callable(script):
            assert claim is not None
            call, digest = function.put_call(claim.path / CALL, script, args, strategy)
            script, args, run_dir = function.WORKER, (digest,), claim.path
            if hosts is not None or backend not in (None, "local"):
                # Send the file, because the machines may not share the run directory.
                copy, files, args = True, (*files, call), (digest, place_of(call))
        engine = engine_for(
            Where(
                backend=backend,
                backend_options=backend_options,
                master=master,
                spark=spark,
                hosts=hosts,
                copy=copy,
                files=files,
                remote_python=remote_python,
                ssh_config=os.environ.get(SSH_CONFIG_VARIABLE) or None,
            )
        )
        job = Job(
            command=[os.fspath(script), *map(str, args)],
            workers=workers_for(workers, engine.slots, others=ps + chief + evaluator),
            ps=ps,
            chief=chief,
            evaluator=evaluator,
            env=dict(env or {}),
            name=name,
            run_dir=run_dir,
            keras_compat=keras_compat,
            max_restarts=max_restarts,
            start_timeout=start_timeout,
            gpus_per_worker=gpus_per_worker,
        )
        if not wait:
            return start_detached(engine, job)
        run, failure = engine.run(job, show="nothing" if quiet else "chief" if only_chief else "all")
    finally:
        if claim is not None:
            claim.release()
    if failure is not None:
        raise failure.to_error() from (error_of(run.path, failure.task) if claim else None)
    return run.values() if claim else run


class _CallableModule(types.ModuleType):
    """`tfmuster.launch` names this module once it has been imported, and the function before that."""

    def __call__(
        self, script: str | os.PathLike[str] | Callable[..., Any], *args: Any, **options: object
    ) -> Any:
        return launch(script, *args, **options)  # type: ignore[arg-type]


sys.modules[__name__].__class__ = _CallableModule

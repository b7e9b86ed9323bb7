"""Launch a training program or function on several workers.

From Python, call :func:`launch`; from a shell, run ``tfmuster launch``::

    run = launch("train.py", workers=4)                       # a script, on this machine
    values = launch(train, 0.01, workers=4)                   # a function and its arguments
    run = launch("train.py", hosts="node1:2,node2:2")         # other machines, through ssh
    run = launch("train.py", backend="slurm", workers=4)      # a batch system

    tfmuster launch -n 4 train.py --epochs 5
    tfmuster launch -H node1:2,node2:2 -- tfmuster train mnist

How a job runs

1. ``script`` is a ``.py`` or ``.R`` script, a command, or a Python function. :mod:`.function` pickles a
   function for the workers, and unpickles the values that they return.
2. :class:`.job.Job` says what to run and how many workers, parameter servers, chiefs and evaluators.
3. An engine decides where the tasks run. Each engine is one module of :mod:`.engines`: this machine
   (``local``), other machines (``ssh``), ``spark``, ``mpi``, and batch systems such as ``slurm``. ``backend``
   names the engine. By default, a job with hosts uses ``ssh``, and other jobs use ``local``.
4. Each task gets its own ``TF_CONFIG``, which names all tasks of the cluster and the one of this process. A
   program needs no code for tfmuster.
5. On other machines, each worker has an agent that starts it, and a proxy process on this machine that
   forwards its output and exit code (:mod:`.remote`).
6. Before TensorFlow connects the workers, the rendezvous waits until all tasks have started, and otherwise
   fails within ``start_timeout`` with the cause (:mod:`tfmuster.rendezvous`).
7. :mod:`.supervise` starts the processes of this machine (workers and proxies), shows their output, and ends
   all when one fails or all have finished. After a failure, it restarts the job up to ``max_restarts`` times.
8. The run directory keeps the status, logs, metrics, model and first failure (:mod:`tfmuster.runs`). You can
   read it from any session, also while the job runs.

How a job ends

The earliest failure is reported as the cause: :func:`launch` raises it as ``WorkerError``, and ``error.json``
keeps it. Workers that fail later because a peer has gone are not blamed. All processes that the job has
started, including descendants, are ended. With ``wait=False``, the job runs in the background
(:mod:`.detached`) and continues after your session ends.

Environment

:mod:`tfmuster.environment` has the variables that the launcher sets for every worker, and those that you can
set yourself. ``TFMUSTER_FACE`` says for whom messages are written: :mod:`tfmuster.words`. ``PYTHONPATH`` of a
worker starts with ``worker/site``, whose ``sitecustomize`` writes the error file and makes Keras 3 work on
several workers. If ``KERAS_BACKEND`` is ``jax``, a worker also has the ``KERAS_DISTRIBUTION_*`` that
``keras.distribution.initialize()`` reads.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..environment import SSH_CONFIG_VARIABLE
from ..errors import LaunchError
from ..system.callable_module import CallableModule
from ..words import did_you_mean

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
    stall_timeout: float | None = None,
    grace: float | None = None,
    notice_command: str | None = None,
    seed: int | None = None,
    gpus_per_worker: int | None = None,
    distribute: bool = False,
    scale_batch: bool = False,
    independent: bool = False,
    allow_nested: bool = False,
    wait: bool = True,
    strategy: str = "multi_worker_mirrored",
    trust_hosts: bool = False,
    isolated: bool = False,
    warm: bool = False,
    oversubscribe: bool = False,
    requeue: bool = False,
    min_workers: int | None = None,
    rejoin_timeout: float = 30.0,
    hosts_from: str | None = None,
    grow: float | None = None,
) -> Any:
    """Run a script or a function on several workers, on this machine or on others.

    Each worker calls a function in a new Python process. The module of the function is sent with it. If the
    function has an argument named ``strategy``, it gets a new strategy. It may return any picklable value; on
    other machines, it returns data (see ``trust_hosts``). A Keras model is returned as a model by the chief
    and as None by other workers, and a Keras history as its dict; both may be inside lists and dicts.

    Parameters
    ----------
    script : str, path or callable
        A ``.py`` script runs in this Python. An ``.R`` script runs in ``Rscript``, with this Python for
        reticulate. Any other text is a command, found on PATH. A callable is called on each worker.
    *args
        Arguments of the script or function.
    workers, ps : int
        Number of workers and of parameter servers. Default: with hosts, one worker per slot, otherwise 2; no
        parameter servers.
    chief, evaluator : bool
        Add a chief or an evaluator. Default: neither. Without a chief, worker 0 is the chief.
    backend : str, optional
        The engine that starts the processes: ``"local"``, ``"ssh"``, ``"spark"``, ``"mpi"``, or a batch
        system such as ``"slurm"``; ``tfmuster launch --help`` lists all. Default: ``"ssh"`` with hosts,
        otherwise ``"local"``.
    backend_options : sequence of str
        Options of the backend: ``"spark.executor.memory=4g"`` for Spark, ``"--map-by node"`` for mpirun,
        ``"--partition=gpu"`` for sbatch. The folder docs/clusters has a page for each.
    master : str, optional
        Spark: URL of the master for a new session, such as ``"spark://node1:7077"`` or ``"local[4]"``.
    spark : SparkSession, optional
        Spark: an existing session.
    hosts : str, optional
        Other machines and the number of tasks on each, such as ``"node1:2,node2:2"``, reached through ssh.
        See docs/clusters/ssh.md.
    copy : bool
        Send the script to the hosts. By default, it must exist there at the same path.
    files : sequence of path
        Files and folders to send with the script, for example modules and data. Each worker then gets its
        own working directory, in which they have the same relative paths. It is removed after the job. What
        the chief's program writes there is copied to ``files/`` in the run directory, up to 2 GB.
    remote_python : str, optional
        Path of a Python on the hosts that has tfmuster. Default: the path of this Python.
    env : mapping, optional
        Additional environment variables of every process.
    quiet, only_chief : bool
        Show only failures; show only the chief's output.
    name : str, optional
        Name of the run. Default: the script's name without its extension.
    run_dir : path, optional
        The run directory. Default: ``runs/<UTC time>-<name>``.
    keras_compat : bool
        Make Keras 3 work under MultiWorkerMirroredStrategy. Default: True.
    max_restarts : int
        Restart the whole job after a failure at most this many times, in the same run directory, from its
        last checkpoint (:func:`tfmuster.checkpoint_callback`). Default: 0. Wrong usage and bad input are not
        retried.
    start_timeout : float, optional
        Time limit for all tasks to start, in seconds. Default: ``TFMUSTER_START_TIMEOUT``, otherwise 60.
    stall_timeout : float, optional
        End the job if workers wait this long for one that does not move, in seconds; 0 for no limit. Default:
        ``TFMUSTER_STALL_TIMEOUT``, otherwise 300.
    grace : float, optional
        Time to write a checkpoint after a shutdown signal or ``Run.stop(save=True)``, in seconds. After it,
        the job ends without a checkpoint. Default: ``TFMUSTER_GRACE``, otherwise 30. See
        :func:`tfmuster.checkpoint_callback`.
    notice_command : str, optional
        A shell command that each worker runs every 5 s during ``fit`` with checkpoints. When it succeeds, the
        worker's machine is about to be reclaimed, and the job writes a checkpoint and ends, as after a
        signal. See docs/reference/launching.md.
    seed : int, optional
        Seed of the random number generators of every worker: R's, NumPy's, Python's, TensorFlow's and
        Keras's, from 0 to 2147483647. A program that sets its own seeds is not affected. Default:
        ``TFMUSTER_SEED``, otherwise drawn; ``run.json`` has it.
    gpus_per_worker : int, optional
        Number of GPUs that each worker gets for itself; 0 for none. Default: 1 if the machine has as many
        GPUs as workers; otherwise every worker sees all GPUs.
    distribute : bool
        Train a program that makes no strategy on all workers. Its batches are those of all workers, so it
        makes the same updates as in one process. See docs/reference/launching.md. Default: False.
    scale_batch : bool
        With ``distribute``: multiply the batch size of ``fit`` by the number of workers. Default: False.
    independent : bool
        Let each worker train a model of its own. By default, a worker that does so fails with a
        `StrategyError` (reason ``not-distributed``).
    allow_nested : bool
        Launch the job although this process is a worker of another one. By default, that is refused, because
        a program that launches itself would do so without end. The workers of the nested job can't launch
        another one.
    wait : bool
        Wait until the job ends. With False, return as soon as the workers run or a batch system has accepted
        the job, which then continues after this session ends.
    strategy : str
        Functions only: name of the strategy that the function gets; see :func:`tfmuster.strategy`.
    trust_hosts : bool
        Functions only: let workers on other machines return objects of any kind, as pickles. Reading them
        lets every host of the job run code in this session, so set this only if you trust all of them. By
        default such workers return numbers, text, arrays, pandas data, Keras models, and lists and dicts of
        them. Workers on this machine may always return any picklable value. See docs/security.md.
    isolated : bool
        On this machine: give the workers a network of their own, in which they reach only each other, and
        nothing else reaches them. Programs that download data then fail. Linux only. Default: False.
    warm : bool
        On this machine or over ssh, with ``max_restarts``: keep a process ready for each worker of a Python
        or R script, which has TensorFlow and Keras imported. A restart then takes half the time. It needs
        about 500 MB for each worker. Default: False.
    oversubscribe : bool
        On this machine: start the job although it has more than four processes for a core, or needs more
        than the free memory. By default, that is refused.
    requeue : bool
        Slurm: write a checkpoint two minutes before the time limit, requeue the job, and resume it. After
        preemption or a lost node it resumes from the newest checkpoint. Default: False.
    min_workers : int, optional
        With hosts and ``max_restarts``: a host that is lost and does not come back is left out at the
        restart, as long as so many workers are left. They make the same updates, with the same global
        batches. The next restart takes all hosts that are back. Default: all workers are needed.
    rejoin_timeout : float
        With ``min_workers``: how long a lost host may take to come back, in seconds. Default: 30.
    hosts_from : str, optional
        In place of ``hosts``: a shell command that prints a line ``host:slots`` for each host, within 30 s.
        It is asked at the start, and again at each restart.
    grow : float, optional
        With ``min_workers``: seconds between two looks for hosts that are back or, with ``hosts_from``, new.
        The workers then write a checkpoint and start again, with at most ``workers``. Default: hosts join at
        restarts only.

    Returns
    -------
    Run or Values
        For a script, or with ``wait=False``: the run, with ``status()``, ``logs()``, ``history()``,
        ``model()``, ``values()``, ``wait()`` and ``stop()``. For a function: a dict of each worker's value,
        by names such as ``"worker 0"``, whose attribute ``run`` is the run.

    Raises
    ------
    LaunchError
        If the program does not exist, a number is invalid, or a host can't take part; if this machine can't
        carry so many processes (reason ``oversubscribed``), or this process is a worker (``nested``).
    RendezvousError
        If an engine did not start all agents in time.
    WorkerError
        If a worker failed after the last restart, and ``wait`` is True. The fields say which worker failed,
        when and why. For a function, ``__cause__`` is its own exception, if that can be sent.
    """
    from ..runs.layout import CALL
    from ..runs.lifecycle import claim_call
    from ..runs.values import error_of
    from ..system.say import has_listener
    from . import function
    from .detached import start_detached
    from .engines.base import Where
    from .engines.local import ThisMachine
    from .engines.registry import engine_for
    from .job import Job, seed_for, workers_for
    from .remote.files import place_of
    from .warm import number_of_warm_workers

    claim = None
    if callable(script):
        name = name or function.name_of(script)
        free = function.any_values(hosts, backend, trust_hosts)
        claim = claim_call(name, run_dir, any_values=free)
    try:
        if callable(script):
            assert claim is not None
            call, digest = function.put_call(claim.path / CALL, script, args, strategy, plain=not free)
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
                isolated=isolated,
                warm=warm,
                oversubscribe=oversubscribe,
                requeue=requeue,
                min_workers=min_workers,
                rejoin_timeout=rejoin_timeout,
                hosts_from=hosts_from,
                grow=grow,
            )
        )
        if workers is None and type(engine) is ThisMachine and not (ps or chief or evaluator):
            workers = number_of_warm_workers(script)
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
            stall_timeout=stall_timeout,
            grace=grace,
            notice_command=notice_command,
            seed=seed_for(seed, run_dir),
            gpus_per_worker=gpus_per_worker,
            distribute=distribute,
            scale_batch=scale_batch,
            independent=independent,
            allow_nested=allow_nested,
            where=engine.again(),
        )
        if not wait:
            return start_detached(engine, job)
        show = "nothing" if quiet else "chief" if only_chief else "all"
        run, failure = engine.run(job, show=show, tell=not quiet and has_listener())
    finally:
        if claim is not None:
            claim.release()
    if failure is not None:
        raise failure.to_error() from (error_of(run.path, failure.task) if claim else None)
    return run.values() if claim else run


class _CallableModule(CallableModule):
    """Make this module callable: once it is imported, `tfmuster.launch` is the module, not the function."""

    def __call__(
        self, script: str | os.PathLike[str] | Callable[..., Any], *args: Any, **options: object
    ) -> Any:
        known = inspect.signature(launch).parameters
        if unknown := [name for name in options if name not in known]:
            raise LaunchError(
                "launch() must be called with arguments that it has.",
                found=f"no argument `{unknown[0]}`",
                fix=did_you_mean(unknown[0], known),
                reason="argument",
            )
        return launch(script, *args, **options)  # type: ignore[arg-type]


sys.modules[__name__].__class__ = _CallableModule

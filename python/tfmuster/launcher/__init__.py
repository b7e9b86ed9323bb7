"""Launch a training program or function on several workers.

From Python, call :func:`launch`; from a shell, run ``tfmuster launch``::

    run = launch("train.py", workers=4)                       # a script, on this machine
    values = launch(train, 0.01, workers=4)                   # a function and its arguments
    run = launch("train.py", on=Ssh("node1:2,node2:2"))       # other machines, through ssh
    run = launch("train.py", on=Slurm(), workers=4)           # a batch system

    tfmuster launch -n 4 train.py --epochs 5
    tfmuster launch -H node1:2,node2:2 -- tfmuster train mnist

How a job runs

1. ``script`` is a ``.py`` or ``.R`` script, a command, or a Python function. :mod:`.function` pickles a
   function for the workers, and unpickles the values that they return.
2. :class:`.job.Job` says what to run and how many workers, parameter servers, chiefs and evaluators.
3. An engine decides where the tasks run. Each engine is one module of :mod:`.engines`: this machine
   (``local``), other machines (``ssh``), ``spark``, ``mpi``, and batch systems such as ``slurm``.
   ``on`` names it, with its settings. :mod:`tfmuster.options.table` has all settings.
4. Each task gets its own ``TF_CONFIG``, which names all tasks of the cluster and the one of this process. A
   program needs no code for tfmuster.
5. On other machines, each worker has an agent that starts it, and a proxy process on this machine that
   forwards its output and exit code (:mod:`.remote`).
6. Before TensorFlow connects the workers, the rendezvous waits until all tasks have started, and otherwise
   fails within ``start_timeout`` with the cause (:mod:`tfmuster.rendezvous`).
7. :mod:`.supervise` starts the processes of this machine (workers and proxies), shows their output, and ends
   all when one fails or all have finished. After a failure, it restarts the job up to ``max_restarts`` times.
8. The run directory keeps the status, logs, metrics, model and first failure (:mod:`tfmuster.tracking`). You
   can read it from any session, also while the job runs.

How a job ends

The earliest failure is reported as the cause: :func:`launch` raises it as ``WorkerError``, and ``error.json``
keeps it. Workers that fail later because a peer has gone are not blamed. All processes that the job has
started, including descendants, are ended. With ``wait=False``, the job runs in the background
(:mod:`.detached`) and continues after your session ends.
:mod:`tfmuster.environment` has the variables that the launcher sets for every worker, and those that you can
set yourself.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ..environment import SSH_CONFIG_VARIABLE
from ..errors import LaunchError
from ..options.hints import Hint, Launch
from ..options.places import Elsewhere, Local, Place
from ..options.rows import Settings
from ..options.table import ROWS, Control, Waiting
from ..words import Value, Words, did_you_mean

if TYPE_CHECKING:
    from ..tracking.failure.failure import Failure
    from ..tracking.run import Run

__all__ = ["launch"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _check_names(function: _Function) -> _Function:
    """Let a function raise LaunchError, with the argument that was meant, for one that it does not have."""
    known = inspect.signature(function).parameters

    @functools.wraps(function)
    def checked(*args: object, **options: object) -> Any:
        if unknown := [name for name in options if name not in known]:
            raise LaunchError(
                "launch() must be called with arguments that it has.",
                found=f"no argument `{unknown[0]}`",
                fix=_written_now(options) or did_you_mean(unknown[0], known),
                reason="argument",
            )
        return function(*args, **options)

    return cast(_Function, checked)


def _written_now(options: Mapping[str, object]) -> str | None:
    """Return the call with these settings where they belong; None if one is no setting."""
    settings = tuple(Hint(name, value) for name, value in options.items())
    if not all(hint.option == "backend" or hint.option in ROWS for hint in settings):
        return None
    return str(Words("Write {}.", Launch(settings, "SCRIPT")))


@_check_names
def launch(
    script: str | os.PathLike[str] | Callable[..., object],
    *args: object,
    workers: int | None = None,
    on: Place | None = None,
    control: Control | None = None,
    max_restarts: int = 0,
    seed: int | None = None,
    name: str | None = None,
    run_dir: str | os.PathLike[str] | None = None,
    quiet: bool = False,
    wait: bool = True,
) -> Any:
    """Run a script or a function on several workers, on this machine or on others.

    Each worker calls a function in a new Python process. The module of the function is sent with it. If the
    function has an argument named ``strategy``, it gets a new strategy. It may return any picklable value; on
    other machines, it returns data (see ``trust_hosts`` of `Ssh`). The chief returns a Keras model as a model
    and other workers as None, and a Keras history becomes its dict; both may be inside lists and dicts.

    Parameters
    ----------
    script : str, path or callable
        A ``.py`` script runs in this Python. If this has no TensorFlow, it runs on this machine in the first
        environment that has it: ``VIRTUAL_ENV``, ``CONDA_PREFIX``, or ``.venv`` beside the script. An ``.R``
        script runs in ``Rscript``, with this Python for reticulate. Any other text is a command, found on
        PATH. A callable is called on each worker.
    *args
        Arguments of the script or function.
    workers : int, optional
        Number of workers. Default: with hosts, one worker per slot, otherwise 2.
    on : Local, Ssh, Slurm, Sge, Pbs, Lsf, Mpi or Spark, optional
        Where the workers run, such as ``Ssh("node1:2,node2:2", copy=True)``. Default: ``Local()``.
    control : Control, optional
        Settings that few jobs need, such as ``Control(ps=1, grace=60)``.
    max_restarts : int
        Restart the whole job after a failure at most this many times, in the same run directory, from its
        last checkpoint (:func:`tfmuster.checkpoint_callback`). Default: 0. Wrong usage and bad input are not
        retried.
    seed : int, optional
        Seed of the random number generators of every worker: R's, NumPy's, Python's, TensorFlow's and
        Keras's, from 0 to 2147483647. A program that sets its own seeds is not affected. Default:
        ``TFMUSTER_SEED``, otherwise drawn; ``run.json`` has it.
    name : str, optional
        Name of the run. Default: the script's name without its extension.
    run_dir : path, optional
        The run directory. Default: ``runs/<UTC time>-<name>``.
    quiet : bool
        Show only failures.
    wait : bool
        Wait until the job ends. With False, return as soon as the workers run or a batch system has accepted
        the job, which then continues after this session ends.

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
        carry so many processes (reason ``oversubscribed``), this process is a worker (``nested``), or the
        environment of a script lacks what a worker needs (``python``).
    RendezvousError
        If an engine did not start all agents in time.
    WorkerError
        If a worker failed after the last restart, and ``wait`` is True. The fields say which worker failed,
        when and why. For a function, ``__cause__`` is its own exception, if that can be sent.
    """
    from ..tracking.lifecycle.beginning import claim_call
    from ..tracking.record.layout import CALL
    from ..tracking.values import error_of
    from . import function
    from .remote.files import place_of

    on = _checked("on", on, Place, Local)
    control = _checked("control", control, Control, Control)
    plain: dict[str, Any] = {"workers": workers, "max_restarts": max_restarts, "seed": seed}
    plain |= {"name": name, "run_dir": run_dir}
    waiting = Waiting(quiet=quiet, wait=wait)
    if not callable(script):
        run, failure = _run([os.fspath(script), *map(str, args)], on, control, waiting, **plain)
        if failure is not None:
            raise failure.to_error()
        return run
    plain["name"] = name = name or function.name_of(script)
    free = function.any_values(on)
    claim = claim_call(name, run_dir, any_values=free)
    try:
        call, digest = function.put_call(claim.path / CALL, script, args, control.strategy, plain=not free)
        command = [os.fspath(function.WORKER), digest]
        if isinstance(on, Elsewhere):
            # Send the file, because the machines may not share the run directory.
            on = on.changed(copy=True, files=(*on.files, call))
            command.append(place_of(call))
        plain["run_dir"] = claim.path
        run, failure = _run(command, on, control, waiting, **plain)
    finally:
        claim.release()
    if failure is not None:
        raise failure.to_error() from error_of(run.path, failure.task)
    return run.values() if wait else run


def _run(
    command: Sequence[str],
    on: Place,
    control: Control,
    waiting: Waiting,
    *,
    workers: int | None,
    **plain: Any,
) -> tuple[Run, Failure | None]:
    """Run a job to its end, or start it; see :meth:`.engines.base.Engine.run`."""
    from ..system.say import has_listener
    from .detached import start_detached
    from .engines.base import engine_for
    from .engines.local import ThisMachine
    from .supervise.spares import number_of_warm_workers

    if config := os.environ.get(SSH_CONFIG_VARIABLE):
        on = on.changed(ssh_config=config)
    engine = engine_for(on)
    others = control.ps + control.chief + control.evaluator
    if workers is None and type(engine) is ThisMachine and not others:
        workers = number_of_warm_workers(command[0])
    job = engine.job(command, workers=workers, **plain, **control.values())
    if not waiting.wait:
        return start_detached(engine, job), None
    show = "nothing" if waiting.quiet else job.output
    return engine.run(job, show=show, tell=not waiting.quiet and has_listener())


_Settings = TypeVar("_Settings", bound=Settings)


def _checked(name: str, value: object, base: type[_Settings], default: type[_Settings]) -> _Settings:
    """Return the settings of an argument. Raises LaunchError if it is something else."""
    if value is None:
        return default()
    if isinstance(value, base):
        return value
    examples = {"on": 'Local() or Ssh("node1:2")', "control": "Control(grace=60)"}
    raise LaunchError(
        f"`{name}` must be an object such as {examples[name]}.", found=str(Value(value)), reason="argument"
    )

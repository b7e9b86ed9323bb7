"""Create a distribution strategy by name, so that Keras 3 works with it, or list all strategies.

TensorFlow accepts many settings that later make it hang. This module raises a
:class:`~tfmuster.errors.StrategyError` for them before TensorFlow binds a port or waits for other workers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..cluster.spec import Cluster, Task
from ..cluster.tf_config import current_task, use_tf_config
from ..environment import COMMUNICATION_VARIABLE, STRICT_VARIABLE, is_on
from ..errors import StrategyError, TfmusterError
from ..keras_compat.choices import BATCH_NORM, COMMUNICATION, GRADIENT_DTYPE
from ..keras_compat.process import PROCESS, require_tensorflow_backend
from ..keras_compat.sums.collectives import prepare_sums, sums_directly
from ..net.ports import free_ports
from ..options.hints import Hint, Launch
from ..system.gpus import visible_gpus
from ..system.say import say
from ..system.tensorflow_import import import_tensorflow, is_installed
from ..system.user_code import user_script
from ..words import Argument, Value, Words, choice, now
from .one_machine import local_strategy

if TYPE_CHECKING:
    import tensorflow as tf

_MULTI_WORKER = "multi_worker_mirrored"

STRATEGIES = (
    "default",
    "one_device",
    "mirrored",
    "central_storage",
    _MULTI_WORKER,
    "parameter_server",
    "tpu",
)

#: The strategies that take an argument.
_TAKEN_BY = {
    "devices": ("one_device", "mirrored", "central_storage"),
    "replicas": ("mirrored", "central_storage"),
    "start_timeout": (_MULTI_WORKER, "parameter_server"),
    "tpu": ("tpu",),
    "min_shard_bytes": ("parameter_server",),
    "gradient_dtype": (_MULTI_WORKER,),
    "batch_norm": (_MULTI_WORKER,),
}


def check_name(name: str) -> None:
    """Raise StrategyError unless ``name`` is the name of a strategy."""
    if name not in STRATEGIES:
        raise StrategyError(
            Words("There is no strategy {}.", Value(name)),
            fix=choice(name, STRATEGIES),
            strategy=str(name),
            reason="unknown-strategy",
        )


def strategy(
    name: str = "default",
    *,
    devices: Sequence[str] | None = None,
    replicas: int | None = None,
    communication: str = "auto",
    keras_compat: bool = True,
    start_timeout: float | None = None,
    tpu: str | None = None,
    min_shard_bytes: int | None = None,
    gradient_dtype: str | None = None,
    batch_norm: str | None = None,
) -> tf.distribute.Strategy:
    """Create a ``tf.distribute`` strategy.

    Parameters
    ----------
    name : str
        One of ``default``, ``one_device``, ``mirrored``, ``central_storage``, ``multi_worker_mirrored``,
        ``parameter_server``, ``tpu``.
    devices : sequence of str, optional
        For ``one_device`` (exactly one), ``mirrored``, and ``central_storage``: devices such as ``"GPU:0"``
        or ``"CPU:1"``. Default: all GPUs, or the CPU if there is no GPU.
    replicas : int, optional
        For ``mirrored`` and ``central_storage``: use this many GPUs. On a machine with fewer GPUs, use this
        many logical CPUs, so that you can try a strategy without GPUs.
    communication : {"auto", "tcp", "tensorflow", "ring", "nccl"}
        How ``multi_worker_mirrored`` sums gradients. ``"auto"`` sums directly between CPUs
        (:mod:`tfmuster.collectives`), and otherwise as TensorFlow chooses. ``"tcp"`` does the same without
        reading the memory of other workers of this machine. ``"tensorflow"`` is always as TensorFlow chooses,
        ``"ring"`` its ring over gRPC, and ``"nccl"`` NVIDIA's NCCL. With ``"auto"``, the environment variable
        ``TFMUSTER_COMMUNICATION`` counts.
    keras_compat : bool
        Patch Keras 3 for several workers (see :mod:`tfmuster.keras_compat`).
    start_timeout : float, optional
        For ``multi_worker_mirrored`` and ``parameter_server``: seconds to wait for the other tasks. Default:
        ``TFMUSTER_START_TIMEOUT``, else 60.
    tpu : str, optional
        For ``tpu``: name or address of a TPU. Default: TensorFlow looks for a local one.
    min_shard_bytes : int, optional
        For ``parameter_server``: minimum size, in bytes, of the pieces that a weight is split into across
        parameter servers. Default: 262,144.
    gradient_dtype : {"float32", "bfloat16", "float16"}, optional
        For ``multi_worker_mirrored``: data type of the gradients that workers send each other in ``fit`` and
        in loops with a Keras 3 optimizer. The 16-bit types halve the bytes of each step; sums are computed in
        float32. Default: ``TFMUSTER_GRADIENT_DTYPE``, else the type they are computed in.
    batch_norm : {"synchronized", "local"}, optional
        For ``multi_worker_mirrored``: with whose rows BatchNormalization normalizes in ``fit``. With
        ``"synchronized"`` with those of all workers, as one process does; with ``"local"`` with those of its
        worker. Default: ``TFMUSTER_BATCH_NORM``, else ``"synchronized"``.

    Returns
    -------
    tf.distribute.Strategy
        Create the model inside ``with strategy.scope():``. A process has one ``multi_worker_mirrored``:
        further calls with the same arguments return it.

    Raises
    ------
    StrategyError
        The strategy can't be created here; ``error.fields["reason"]`` names the cause.
    ClusterError
        TF_CONFIG is set but invalid.
    RendezvousError
        A worker did not join in time, or has another cluster or other versions; the error names it.
    DependencyError
        TensorFlow is not installed for this Python.

    Examples
    --------
    >>> import tfmuster
    >>> strategy = tfmuster.strategy("mirrored", replicas=2)  # doctest: +SKIP
    >>> with strategy.scope():  # doctest: +SKIP
    ...     model = tfmuster.mnist_model("cnn")
    """
    check_name(name)
    require_tensorflow_backend(
        "strategy()", "call keras.distribution.initialize() and keras.distribution.set_distribution()"
    )
    _refuse_unused(name, locals())
    if name == _MULTI_WORKER:
        created = _multi_worker_mirrored(communication, start_timeout, gradient_dtype, batch_norm)
    elif name == "parameter_server":
        from .parameter_server.serving import make_strategy

        task = _required_task(name)
        created = make_strategy(task, min_shard_bytes=min_shard_bytes, start_timeout=start_timeout)
    else:
        created = local_strategy(name, devices, replicas, tpu)
    if keras_compat:
        from ..rendezvous.task.agreement import prepare_keras

        prepare_keras()
    return created


def _refuse_unused(name: str, arguments: Mapping[str, object]) -> None:
    for argument, takers in _TAKEN_BY.items():
        if (value := arguments[argument]) is not None and name not in takers:
            raise StrategyError(
                Words("{} does not apply to the strategy {}.", argument, Value(name)),
                found=str(Argument(argument, value)),
                fix=f"leave it out, or choose {' or '.join(takers)}",
                strategy=name,
                reason="unused-argument",
            )


def _multi_worker_mirrored(
    communication: str, start_timeout: float | None, gradient_dtype: str | None, batch_norm: str | None
) -> tf.distribute.Strategy:
    """Join the cluster and make the strategy, or return the one that this process has; see `strategy`."""
    how = COMMUNICATION.checked(None if communication == "auto" else communication)
    task = _required_task(_MULTI_WORKER)
    if task.type not in ("chief", "worker"):
        raise StrategyError(
            "Only chief and worker tasks train under multi_worker_mirrored.",
            found=f"this is {task.name}",
            strategy=_MULTI_WORKER,
            reason="task-type",
        )
    if (present := _present(task, how, communication)) is not None:
        if gradient_dtype is not None:
            GRADIENT_DTYPE.set(present, gradient_dtype)
        if batch_norm is not None:
            BATCH_NORM.set(present, batch_norm)
        return present
    from ..keras_compat.runtime.starting import check_not_started
    from ..keras_compat.runtime.strategy_patches import train_together

    dtype = GRADIENT_DTYPE.checked(gradient_dtype)
    normalizes = BATCH_NORM.checked(batch_norm)
    tf = import_tensorflow()
    check_not_started(_MULTI_WORKER)
    from ..rendezvous.task.join import join_cluster
    from ..rendezvous.task.port_guard import all_connected

    join_cluster(task, timeout=start_timeout, link=sums_directly(how))
    prepare_sums(how)
    stock = how.upper() if how in ("ring", "nccl") else "AUTO"
    options = tf.distribute.experimental.CommunicationOptions(
        implementation=getattr(tf.distribute.experimental.CommunicationImplementation, stock)
    )
    strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
    PROCESS.strategy, PROCESS.task, PROCESS.communication = strategy, task, how
    GRADIENT_DTYPE.set(strategy, dtype)
    BATCH_NORM.set(strategy, normalizes)
    train_together(strategy)
    all_connected()
    return strategy


def _present(task: Task, how: str, communication: str) -> tf.distribute.Strategy | None:
    """Return the strategy that this process has, if the arguments suit it; None if it has none."""
    if PROCESS.default is not None:
        if communication == "auto":
            return PROCESS.default
        distribute = Hint("distribute", True)
        raise StrategyError(
            Words(
                "With {}, communication must be auto: the strategy is made before the program.", distribute
            ),
            found=str(Value(communication)),
            fix=Words("set {}, or launch the program without {}", COMMUNICATION_VARIABLE, distribute),
            strategy=_MULTI_WORKER,
            reason="communication",
        )
    if PROCESS.task is None:
        return None
    if task != PROCESS.task:
        other, found = "cluster", f"this is {task.name} at {task.address}"
    elif how != PROCESS.communication:
        other = "communication"
        found = f"{Argument(other, how)}, the first has {Value(PROCESS.communication)}"
    else:
        return PROCESS.strategy
    raise StrategyError(
        f"This process already has a multi-worker strategy, with another {other}.",
        found=found,
        fix="use the first one, or start a new process for a second job",
        strategy=_MULTI_WORKER,
        reason="second-strategy",
    )


def _required_task(name: str) -> Task:
    """Return the task of this process, which may be the only one. Raises StrategyError if it may not."""
    from ..cluster.resolvers import batch_job, join_engine

    if (task := join_engine()) is not None:
        return task
    hints = (Hint("workers", 2), *([Hint("ps", 1)] if name == "parameter_server" else []))
    launch = Launch(hints, user_script() or "SCRIPT", by_command=True)
    if name == _MULTI_WORKER and not is_on(STRICT_VARIABLE) and batch_job() is None:
        task = Cluster(worker=[f"127.0.0.1:{free_ports(1)[0]}"]).task("worker", 0)
        use_tf_config(task)
        say(Words("tfmuster: one worker trains, because TF_CONFIG is not set; `{}` starts two", launch))
        return task
    raise StrategyError(
        f"{name} needs to know its cluster, and TF_CONFIG is not set.",
        fix=Words(
            "start the program with `{}`, in a job of Slurm with srun, or call use_tf_config(task) first",
            launch,
        ),
        strategy=name,
        reason="no-tf-config",
    )


def strategy_table(environ: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """List what each strategy trains with, and whether it would work here.

    Parameters
    ----------
    environ : mapping of str, optional
        Environment variables to read. Default: those of this process.

    Returns
    -------
    list of dict
        For each strategy: ``strategy``, its name; ``fit``, the function that trains a Keras 3 model under it;
        ``custom_loop``, whether it supports a loop with :func:`tfmuster.distributed_step`; ``here``, whether
        it would work in this process; ``why``, the devices it would use, or what is missing.
    """
    environ = os.environ if environ is None else environ
    gpus = len(visible_gpus(environ))
    devices = (
        f"{gpus} GPU{'s' if gpus > 1 else ''}"
        if gpus
        else Words("the CPU; with {}, two logical CPUs", Argument("replicas", 2))
    )
    one = "the first GPU" if gpus else "the CPU"
    rows = [
        ("default", "fit", "yes", None, one),
        ("one_device", "fit", "yes", None, one),
        ("mirrored", "fit", "yes", None, devices),
        ("central_storage", "fit", "yes", None, devices),
        (_MULTI_WORKER, "fit", "yes", *_in_cluster(environ, ps=False)),
        ("parameter_server", "ps_fit", "yes", *_in_cluster(environ, ps=True)),
        ("tpu", "not tried", "not tried", *_tpu_here(environ)),
    ]
    if not is_installed("tensorflow"):
        rows = [(*row[:3], "TensorFlow is not installed", "") for row in rows]
    return [
        {
            "strategy": name,
            "fit": fit,
            "custom_loop": loop,
            "here": missing is None,
            "why": str(now(why if missing is None else missing)),
        }
        for name, fit, loop, missing, why in rows
    ]


def _in_cluster(environ: Mapping[str, str], *, ps: bool) -> tuple[str | None, str]:
    """Return what is missing, or None, and what this process is."""
    start = Launch((Hint("workers", 2), *([Hint("ps", 1)] if ps else [])))
    try:
        task = current_task(dict(environ))
    except TfmusterError as error:
        return f"TF_CONFIG is wrong: {error.message}", ""
    if task is None and ps:
        return f"needs a cluster: {start}", ""
    if task is None:
        return None, f"one worker; several: {start}"
    servers = bool(task.cluster.jobs.get("ps"))
    if ps and not (servers and task.cluster.jobs.get("worker")):
        return f"the cluster has no ps: {start}", ""
    if not ps and task.type not in ("chief", "worker"):
        return f"this is {task.name}, and chief and workers train", ""
    return None, f"this is {task.name} of {len(task.cluster)} tasks"


def _tpu_here(environ: Mapping[str, str]) -> tuple[str | None, str]:
    """Return what is missing, or None, and which TPU there is."""
    named = environ.get("TPU_NAME") or environ.get("KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS")
    if named:
        return None, f"the TPU {named}, if it can be reached"
    if any(Path("/dev").glob("accel[0-9]*")) or any(Path("/dev/vfio").glob("[0-9]*")):
        return None, "an accelerator of this machine, if it is a TPU"
    needs = "TensorFlow needs a Cloud TPU: a TPU VM ({}), or the name of a TPU of the project"
    return Words(needs, Argument("tpu", "local")), ""

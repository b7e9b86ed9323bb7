"""Join a cluster, and make its ``multi_worker_mirrored``."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from ..environment import COMMUNICATION_VARIABLE
from ..errors import StrategyError
from ..keras_compat.process import PROCESS
from ..keras_compat.sums.collectives import checked_communication, prepare_sums, sums_directly
from ..keras_compat.sums.gradients import checked_dtype, set_gradient_dtype, wanted_dtype
from ..options.hints import Hint, Launch
from ..system.tensorflow_import import import_tensorflow
from ..system.user_code import user_script
from ..words import Argument, Value, Words

if TYPE_CHECKING:
    import tensorflow as tf

    from ..cluster.spec import Task

NAME = "multi_worker_mirrored"


def multi_worker_mirrored(
    communication: str, start_timeout: float | None, gradient_dtype: str | None
) -> tf.distribute.Strategy:
    """Join the cluster and make the strategy, or return the one that this process has; see `strategy`."""
    how = checked_communication(communication)
    task = required_task(NAME)
    if task.type not in ("chief", "worker"):
        raise StrategyError(
            "Only chief and worker tasks train under multi_worker_mirrored.",
            found=f"this is {task.name}",
            strategy=NAME,
            reason="task-type",
        )
    if (present := _present(task, how, communication)) is not None:
        if gradient_dtype is not None:
            set_gradient_dtype(present, gradient_dtype)
        return present
    from ..keras_compat.agreement.comparison import agree_on_seed
    from ..keras_compat.agreement.waiting import patch_waits
    from ..keras_compat.runtime.starting import check_not_started

    dtype = wanted_dtype() if gradient_dtype is None else checked_dtype(gradient_dtype)
    tf = import_tensorflow()
    check_not_started(NAME)
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
    set_gradient_dtype(strategy, dtype)
    agree_on_seed(strategy)
    patch_waits()
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
            strategy=NAME,
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
        strategy=NAME,
        reason="second-strategy",
    )


def required_task(name: str) -> Task:
    """Return the task of this process. Raises StrategyError if nothing says which it is."""
    from ..cluster.resolvers import join_engine

    task = join_engine()
    if task is None:
        hints = (Hint("workers", 2), *([Hint("ps", 1)] if name == "parameter_server" else []))
        raise StrategyError(
            f"{name} needs to know its cluster, and TF_CONFIG is not set.",
            fix=Words(
                "start the program with `{}`, in a job of Slurm with srun, or call use_tf_config(task) first",
                Launch(hints, shlex.quote(user_script() or "SCRIPT"), by_command=True),
            ),
            strategy=name,
            reason="no-tf-config",
        )
    return task

"""Join a cluster, and make its ``multi_worker_mirrored``."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from ..environment import COMMUNICATION_VARIABLE
from ..errors import StrategyError
from ..keras_compat.process import PROCESS
from ..options.hints import Hint, Launch
from ..system.own_line import own_script
from ..system.tensorflow_import import import_tensorflow
from ..words import Argument, Value, Words

if TYPE_CHECKING:
    from ..cluster.spec import Task


def multi_worker_mirrored(communication: str, start_timeout: float | None, gradient_dtype: str | None) -> Any:
    """Join the cluster and make the strategy, or return the one that this process has; see `strategy`."""
    name = "multi_worker_mirrored"
    from ..keras_compat.sums.collectives import checked_communication, prepare_sums, sums_directly

    how = checked_communication(communication)
    task = task_in_force(name)
    if task.type not in ("chief", "worker"):
        raise StrategyError(
            "Only chief and worker tasks train under multi_worker_mirrored.",
            found=f"this is {task.name}",
            strategy=name,
            reason="task-type",
        )
    if PROCESS.default is not None:
        return _given(PROCESS.default, communication, gradient_dtype)
    if PROCESS.task is not None:
        return _again(task, how, gradient_dtype)
    from ..keras_compat.agreement.comparison import agree_on_seed
    from ..keras_compat.agreement.waiting import patch_waits
    from ..keras_compat.runtime.starting import check_not_started
    from ..keras_compat.sums.gradients import checked_dtype, set_gradient_dtype, wanted_dtype

    dtype = wanted_dtype() if gradient_dtype is None else checked_dtype(gradient_dtype)
    tf = import_tensorflow()
    check_not_started(name)
    from ..rendezvous.task.join import join_cluster
    from ..rendezvous.task.port_guard import all_connected

    join_cluster(task, timeout=start_timeout, link=sums_directly(how))
    prepare_sums(how)
    stock = how.upper() if how in ("ring", "nccl") else "AUTO"
    options = tf.distribute.experimental.CommunicationOptions(
        implementation=getattr(tf.distribute.experimental.CommunicationImplementation, stock)
    )
    made = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
    PROCESS.strategy, PROCESS.task, PROCESS.communication = made, task, how
    set_gradient_dtype(made, dtype)
    agree_on_seed(made)
    patch_waits()
    all_connected()
    return made


def _again(task: Task, how: str, gradient_dtype: str | None) -> Any:
    """Return the strategy that this process has made, for example in a cell that is run again."""
    from ..keras_compat.sums.gradients import set_gradient_dtype

    if (task, how) != (PROCESS.task, PROCESS.communication):
        what, found = "cluster", f"this is {task.name} at {task.address}"
        if task == PROCESS.task:
            what = "communication"
            found = f"{Argument(what, how)}, the first has {Value(PROCESS.communication)}"
        raise StrategyError(
            f"This process already has a multi-worker strategy, with another {what}.",
            found=found,
            fix="use the first one, or start a new process for a second job",
            strategy="multi_worker_mirrored",
            reason="second-strategy",
        )
    if gradient_dtype is not None:
        set_gradient_dtype(PROCESS.strategy, gradient_dtype)
    return PROCESS.strategy


def _given(strategy: Any, communication: str, gradient_dtype: str | None) -> Any:
    """Return the strategy that `launch --distribute` has made for the program, with its settings."""
    from ..keras_compat.sums.gradients import set_gradient_dtype

    if communication != "auto":
        distribute = Hint("distribute", True)
        raise StrategyError(
            Words(
                "With {}, communication must be auto: the strategy is made before the program.", distribute
            ),
            found=str(Value(communication)),
            fix=Words("set {}, or launch the program without {}", COMMUNICATION_VARIABLE, distribute),
            strategy="multi_worker_mirrored",
            reason="communication",
        )
    if gradient_dtype is not None:
        set_gradient_dtype(strategy, gradient_dtype)
    return strategy


def task_in_force(name: str) -> Any:
    """Return the task of this process, for a strategy of several.

    Raises
    ------
    StrategyError
        Nothing says which it is (reason ``no-tf-config``).
    """
    from ..cluster.resolvers import join_engine

    task = join_engine()
    if task is None:
        raise StrategyError(
            f"{name} needs to know its cluster, and TF_CONFIG is not set.",
            fix=Words(
                "start the program with `{}`, in a job of Slurm with srun, or call use_tf_config(task) first",
                _launch(servers=name == "parameter_server"),
            ),
            strategy=name,
            reason="no-tf-config",
        )
    return task


def _launch(*, servers: bool) -> Launch:
    """Return what launches this program."""
    hints = (Hint("workers", 2), *([Hint("ps", 1)] if servers else []))
    return Launch(hints, shlex.quote(own_script() or "SCRIPT"), by_command=True)

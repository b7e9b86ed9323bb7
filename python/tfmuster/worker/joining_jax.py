"""Let programs on JAX meet the other workers before JAX connects them, and tell JAX its place.

``keras.distribution.initialize()`` calls ``jax.distributed.initialize()``, which connects to its coordinator
in process 0, and waits for the other processes for five minutes without naming the missing ones.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
from collections.abc import Callable

from ..cluster.spec import Task
from ..cluster.tf_config import JaxProcess, current_task, jax_process
from ..errors import StrategyError, WorkerError


def patch_jax() -> None:
    """Let the imported JAX join the job when its distributed runtime is initialized."""
    import jax

    stock = jax.distributed.initialize

    @functools.wraps(stock)
    def initialize(
        coordinator_address: str | None = None,
        num_processes: int | None = None,
        process_id: int | None = None,
        *args: object,
        **kwargs: object,
    ) -> None:
        if (task := current_task()) is None:
            stock(coordinator_address, num_processes, process_id, *args, **kwargs)
            return
        own = _place_of(task)
        _refuse_other_place(own, num_processes, process_id)
        # JAX would look for Slurm and MPI, and take a GPU by its number on the machine, although the
        # launcher shows each process its own GPUs only.
        kwargs.setdefault("cluster_detection_method", "deactivate")
        address = coordinator_address or own.coordinator
        connect = functools.partial(stock, address, own.processes, own.index, *args, **kwargs)
        connect() if len(task.cluster) < 2 else _join(task, connect)

    jax.distributed.initialize = initialize


def _join(task: Task, connect: Callable[[], None]) -> None:
    """Meet the other workers, and then connect to them."""
    import jax

    from ..keras_compat.agreement.waiting import monitor_jax
    from ..rendezvous.task.join import join_cluster
    from ..system.versions import installed_versions, jax_versions
    from ..tracking.live.states import State, say_state

    if jax.config.jax_cpu_collectives_implementation is None:
        # Without it, CPUs of several processes can't add their gradients.
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
    # At exit, in the opposite order: the control channel reports it, then this waits, then JAX disconnects.
    atexit.register(_wait_for_others)
    # JAX listens on ports of its own.
    join_cluster(task, versions={**installed_versions(), **jax_versions()}, guarded=False)
    connect()
    monitor_jax()
    say_state(State("building"))


def _wait_for_others() -> None:
    """Stay connected until all workers have finished.

    Workers that still need this one would fail first, and be blamed. And JAX itself ends a process with an
    error if the others take more than five minutes longer.
    """
    from ..rendezvous.task.control_channel import ControlChannel

    control = ControlChannel.current()
    if control is not None:
        with contextlib.suppress(WorkerError):
            control.wait_done()


def _place_of(task: Task) -> JaxProcess:
    place = jax_process(task)
    if place is None:
        raise StrategyError(
            "On JAX, a job has only workers and a chief.",
            found=f"this process is {task.name}",
            fix="launch it without parameter servers and evaluators, which are TensorFlow's",
            strategy="default",
            reason="backend",
        )
    return place


def _refuse_other_place(own: JaxProcess, processes: int | None, index: int | None) -> None:
    """Refuse a number of processes, or an index, that is not the one of the job."""
    if processes in (None, own.processes) and index in (None, own.index):
        return
    raise StrategyError(
        "A program on JAX must use the processes of its job.",
        found=f"process {index} of {processes}, in place of process {own.index} of {own.processes}",
        fix="call keras.distribution.initialize() without arguments",
        strategy="default",
        reason="other-cluster",
    )

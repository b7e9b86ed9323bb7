"""Create the strategy on the coordinator; run a server on every other task until the job ends."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ...cluster.spec import Task
from ...errors import StrategyError
from ...keras_compat.process import PROCESS, uses_keras_2
from ...net.ports import free_ports
from ...options.hints import Hint, Launch
from ...rendezvous.task.control_channel import ControlChannel
from ...rendezvous.task.join import is_worker_process, join_cluster, serve_until_over
from ...rendezvous.task.port_guard import all_connected, guard_also, serving
from ...system.process_end import exit_as
from ...system.tensorflow_import import import_tensorflow
from ...tracking.live.states import State, say_state
from ...words import Words

if TYPE_CHECKING:
    import tensorflow as tf

NAME = "parameter_server"
#: Variables of at least twice this many bytes are split across parameter servers. TensorFlow recommends it.
MIN_SHARD_BYTES = 256 << 10

#: A job with parameter servers.
WITH_SERVERS = Launch((Hint("workers", 2), Hint("ps", 1)))

# Servers that are garbage-collected stop serving.
_servers: list[Any] = []
_cutting: contextvars.ContextVar[bool] = contextvars.ContextVar("tfmuster_cutting", default=False)


def make_strategy(
    task: Task, *, min_shard_bytes: int | None = None, start_timeout: float | None = None
) -> tf.distribute.ParameterServerStrategy:
    """Create the strategy on the coordinator. Every other task serves until the job ends and then exits.

    Raises StrategyError if the cluster or this process can't have one, and RendezvousError.
    """
    _check(task)
    tf = import_tensorflow()
    from ...keras_compat.runtime.servers import reach_idle_servers
    from ...keras_compat.runtime.starting import check_not_started

    check_not_started(NAME)
    control = join_cluster(task, timeout=start_timeout)
    if not task.is_chief:
        serve(task, control)
    spec = _cluster_spec(task)
    if task.type == "worker":
        # Worker 0 coordinates and works in one process, so that both share its GPU.
        _servers.append(_server(task))
        host = task.address.rpartition(":")[0]
        port = free_ports(1)[0]
        spec["chief"] = [f"{host}:{port}"]
        guard_also(port)
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(spec), task_type="chief", task_id=0, rpc_layer="grpc"
    )
    partitioner = _partitioner(
        MIN_SHARD_BYTES if min_shard_bytes is None else min_shard_bytes, len(spec["ps"])
    )
    strategy = tf.distribute.ParameterServerStrategy(resolver, variable_partitioner=partitioner)
    PROCESS.strategy = strategy
    reach_idle_servers()
    all_connected()
    return strategy


def serve(task: Task, control: ControlChannel) -> None:
    """Run this task's server until the job ends, then exit this process with code 0.

    In an interactive session, raise a StrategyError instead of ending the session.
    """
    server = _server(task)
    serving()
    say_state(State("serving", serves=True))
    if not control.joined:
        server.join()
    code = serve_until_over(control)
    if not is_worker_process():
        raise StrategyError(
            "This task served until the job ended; only the coordinator trains.",
            found=f"this is {task.name}",
            strategy=NAME,
            reason="served",
        )
    exit_as(code)


@contextlib.contextmanager
def partitioned_variables() -> Iterator[None]:
    """Inside the block, split large variables of the strategy's scope across the parameter servers.

    Elsewhere they are not split, because Keras 3's layers don't support variables in pieces.
    """
    token = _cutting.set(True)
    try:
        yield
    finally:
        _cutting.reset(token)


def _check(task: Task) -> None:
    jobs = task.cluster.jobs
    if not jobs.get("ps") or not jobs.get("worker"):
        raise StrategyError(
            "A parameter-server cluster needs at least one worker and one ps.",
            found=", ".join(f"{len(tasks)} {job}" for job, tasks in jobs.items()),
            fix=Words("{}, or name them in the cluster", WITH_SERVERS),
            strategy=NAME,
            reason="jobs",
        )
    if task.type == "evaluator":
        raise StrategyError(
            "An evaluator does not use the strategy: it evaluates checkpoints.",
            found=f"this is {task.name}",
            fix="call evaluate_checkpoints(model, data) there",
            strategy=NAME,
            reason="task-type",
        )
    if PROCESS.strategy is not None:
        raise StrategyError(
            "This process already has a multi-worker strategy, and TensorFlow allows only one per process.",
            fix="use the first one, or start a new process for a second job",
            strategy=NAME,
            reason="second-strategy",
        )


def _cluster_spec(task: Task) -> dict[str, list[str]]:
    return {job: list(tasks) for job, tasks in task.cluster.jobs.items() if job != "evaluator"}


def _server(task: Task) -> tf.distribute.Server:
    import tensorflow as tf

    return tf.distribute.Server(
        tf.train.ClusterSpec(_cluster_spec(task)),
        job_name=task.type,
        task_index=task.index,
        protocol="grpc",
        start=True,
    )


def _partitioner(min_shard_bytes: int, servers: int) -> Callable[..., list[int]]:
    import tensorflow as tf

    cut = tf.distribute.experimental.partitioners.MinSizePartitioner(
        min_shard_bytes=min_shard_bytes, max_shards=servers
    )
    legacy = uses_keras_2()

    def partition(shape: tf.TensorShape, dtype: tf.DType, **options: object) -> list[int]:
        if legacy or _cutting.get():
            pieces: list[int] = cut(shape, dtype, **options)
            return pieces
        return [1] * len(shape)

    return partition

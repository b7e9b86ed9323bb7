"""Who coordinates, and what the other tasks of a parameter-server job do: serve, and end with the job."""

from __future__ import annotations

import contextlib
import contextvars
import os
import socket
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ...errors import EXIT_WORKER_FAILED, StrategyError, WorkerError
from ...net.addresses import split_address
from ...net.ports import free_ports
from ...rendezvous.join import GRACE_SECONDS, is_worker_process, join_cluster
from ...runs.states import State, say_state
from ...system.tensorflow_import import import_tensorflow
from ..devices import STRATEGY_FIRST

if TYPE_CHECKING:
    from ...cluster.spec import Task
    from ...rendezvous.control_channel import ControlChannel

NAME = "parameter_server"
#: Variables of at least twice as many bytes are cut over several parameter servers. TensorFlow's advice.
MIN_SHARD_BYTES = 256 << 10

#: How long the coordinator may take from its last word to its end, seconds.
_LEAVE_SECONDS = 3.0

# A process has one cluster and one strategy of it. Kept too: a server that is collected stops serving.
_made: list[Any] = []
_servers: list[Any] = []
_cutting: contextvars.ContextVar[bool] = contextvars.ContextVar("tfmuster_cutting", default=False)


def current_strategy() -> Any:
    """The strategy that this process has made, or None."""
    return _made[-1] if _made else None


def make_strategy(
    task: Task, *, min_shard_bytes: int | None = None, start_timeout: float | None = None
) -> Any:
    """The strategy, on the coordinator. The other tasks serve until the job is over and then end.

    Raises
    ------
    StrategyError
        No such cluster, a second strategy, or TensorFlow has started already.
    RendezvousError
        Not everyone came in time, or not with the same cluster and versions.
    """
    _check(task)
    tf = import_tensorflow()
    from ...keras_compat import tensorflow_started

    if tensorflow_started():
        raise StrategyError(
            "TensorFlow has started in this process, so it can't join a cluster any more.",
            fix=STRATEGY_FIRST,
            strategy=NAME,
            reason="already-started",
        )
    control = join_cluster(task, timeout=start_timeout)
    if not task.is_chief:
        serve(task, control)
    spec = _cluster_spec(task)
    if task.type == "worker":
        # Worker 0 coordinates and works; it does both in one process, which shares its GPU between them.
        _servers.append(_server(task))
        host = task.address.rpartition(":")[0]
        spec["chief"] = [f"{host}:{free_ports(1)[0]}"]
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(spec), task_type="chief", task_id=0, rpc_layer="grpc"
    )
    cut = _partitioner(MIN_SHARD_BYTES if min_shard_bytes is None else min_shard_bytes, len(spec["ps"]))
    made = tf.distribute.ParameterServerStrategy(resolver, variable_partitioner=cut)
    _made.append(made)
    return made


def serve(task: Task, control: ControlChannel) -> None:
    """Run this task's server until the job is over, then end this process with 0.

    In somebody's session, which is not to be ended, a StrategyError says that it is over.
    """
    server = _server(task)
    say_state(State("serving", serves=True))
    if not control.joined:
        server.join()
    if task.type == "worker":
        # It may be lost: the coordinator goes on without it. A parameter server holds what is trained.
        control.done()
    code = 0
    try:
        control.wait_done()
        _wait_until_gone(task.cluster.chief_task().address)
    except WorkerError:
        # The control line has told the cause. Whoever it is has to end first, to be known as the cause.
        code = EXIT_WORKER_FAILED
        time.sleep(GRACE_SECONDS)
    if not is_worker_process():
        raise StrategyError(
            "This task has served, and the job is over; only its coordinator trains.",
            found=f"this is {task.name}",
            strategy=NAME,
            reason="served",
        )
    sys.stdout.flush()
    sys.stderr.flush()
    # A TensorFlow server can't be stopped.
    os._exit(code)


def _wait_until_gone(address: str) -> None:
    """Wait until the coordinator has ended: TensorFlow takes leave of every server then."""
    end = time.monotonic() + _LEAVE_SECONDS
    while time.monotonic() < end:
        try:
            socket.create_connection(split_address(address), timeout=_LEAVE_SECONDS).close()
        except OSError:
            return
        time.sleep(0.1)


@contextlib.contextmanager
def partitioned_variables() -> Iterator[None]:
    """Within: large variables made in the strategy's scope are cut over the parameter servers.

    Elsewhere they are not, because Keras 3's layers don't know variables in pieces.
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
            fix="tfmuster launch --ps 1 --workers 2 ..., or name them in the cluster",
            strategy=NAME,
            reason="jobs",
        )
    if task.type == "evaluator":
        raise StrategyError(
            "An evaluator has no part in the strategy: it follows the checkpoints.",
            found=f"this is {task.name}",
            fix="call evaluate_checkpoints(model, data) there",
            strategy=NAME,
            reason="task-type",
        )
    if _made:
        raise StrategyError(
            "This process has its multi-worker strategy already, and TensorFlow allows no second one.",
            fix="use the first one, or start a new process for a second job",
            strategy=NAME,
            reason="second-strategy",
        )


def _cluster_spec(task: Task) -> dict[str, list[str]]:
    return {job: list(tasks) for job, tasks in task.cluster.jobs.items() if job != "evaluator"}


def _server(task: Task) -> Any:
    tf = import_tensorflow()

    return tf.distribute.Server(
        tf.train.ClusterSpec(_cluster_spec(task)),
        job_name=task.type,
        task_index=task.index,
        protocol="grpc",
        start=True,
    )


def _partitioner(min_shard_bytes: int, servers: int) -> Any:
    tf = import_tensorflow()

    cut = tf.distribute.experimental.partitioners.MinSizePartitioner(
        min_shard_bytes=min_shard_bytes, max_shards=servers
    )
    legacy = os.environ.get("TF_USE_LEGACY_KERAS", "").lower() in ("1", "true")

    def partition(shape: Any, dtype: Any, **options: Any) -> Any:
        if legacy or _cutting.get():
            return cut(shape, dtype, **options)
        return [1] * len(shape)

    return partition

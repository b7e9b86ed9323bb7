"""Call hooks when a program makes a ``tf.distribute`` strategy or server that connects several processes.

With one replica in this process, its step runs in the caller's thread. TensorFlow traces each replica in a
thread of its own, even a single one, and R functions can be called only in R's thread: a layer, loss, or
metric that is written in R would fail there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from ...system.activity import ACTIVITY
from ...system.register import Seam
from ...system.user_code import user_line
from .. import seams
from ..agreement.comparison import agree_on_seed, other_variable, other_weight
from ..agreement.documents import plain_name
from ..agreement.waiting import patch_waits
from ..data.order import keep_order
from ..losses.loss_reduction import all_rows
from ..process import PROCESS, multi_worker
from ..step_rows import is_one_process, share_of_rows
from .servers import keep_server, reach_idle_servers

if TYPE_CHECKING:
    import tensorflow as tf

    Resolver: TypeAlias = tf.distribute.cluster_resolver.ClusterResolver | None

#: Gets what the program passed: jobs with their addresses, its task type, its index. Each may be empty.
BeforeStrategy = Callable[[dict[str, list[str]], str, int | None], None]


def patch_strategies(
    *,
    begin: Callable[[], None],
    before: BeforeStrategy,
    after: Callable[[], None],
    served: Callable[[], None],
    waits: Callable[[], None],
    joins: Callable[[], bool],
) -> None:
    """Call hooks when a program makes a strategy or a server for several processes.

    These are all classes of TensorFlow 2 and of ``compat.v1``, whichever way they get their cluster. `begin`
    is called before TensorFlow reads TF_CONFIG, `before` when the cluster is known but no port bound, `after`
    and `served` after the strategy or the server is made, and `waits` before ``Server.join()``, which never
    returns. Workers share a seed before `after`.

    `joins` tells whether this process is to join a cluster of workers. Then it does so before the program
    makes a strategy of its own devices, which starts TensorFlow: a started one can't join any more.
    """

    def at_resolver(seam: Seam) -> None:
        stock = seam.get()

        @seam.wrap
        def with_resolver(self: Any, cluster_resolver: Resolver, *args: object, **kwargs: object) -> Any:
            if cluster_resolver is not None and (jobs := _jobs(cluster_resolver.cluster_spec())):
                before(jobs, cluster_resolver.task_type or "", cluster_resolver.task_id)
            return stock(self, cluster_resolver, *args, **kwargs)

    def at_end(seam: Seam) -> None:
        stock = seam.get()

        @seam.wrap
        def init(self: Any, *args: object, **kwargs: object) -> None:
            begin()
            stock(self, *args, **kwargs)
            if multi_worker(self):
                train_together(self)
            elif seam is seams.PS_INIT:
                reach_idle_servers()
            else:
                return
            PROCESS.strategy = self
            after()

    def after_joining(seam: Seam) -> None:
        stock = seam.get()

        @seam.wrap
        def init(self: Any, *args: object, **kwargs: object) -> None:
            if joins():
                seams.COLLECTIVE_STRATEGY.get()()
            stock(self, *args, **kwargs)

    for seam in seams.OWN_DEVICES:
        after_joining(seam)
    keep_server()
    # Every multi-worker class of TensorFlow passes its resolver to this method, also the default one.
    at_resolver(seams.INITIALIZE_MULTI_WORKER)
    at_end(seams.COLLECTIVE_INIT)
    at_end(seams.COLLECTIVE_V1_INIT)
    at_resolver(seams.PS_INITIALIZE)
    at_resolver(seams.PS_INIT)
    at_end(seams.PS_INIT)
    _name_other_weights()
    _mirror_own_devices()
    stock_server, stock_join = seams.SERVER_INIT.get(), seams.SERVER_JOIN.get()

    @seams.SERVER_INIT.wrap
    def server(
        self: Any,
        server_or_cluster_def: object,
        job_name: str | None = None,
        task_index: int | None = None,
        *args: object,
        **kwargs: object,
    ) -> None:
        place = _place(server_or_cluster_def, job_name, task_index)
        if place is not None:
            before(*place)
        stock_server(self, server_or_cluster_def, job_name, task_index, *args, **kwargs)
        served()

    @seams.SERVER_JOIN.wrap
    def join(self: Any) -> None:
        waits()
        stock_join(self)


def train_together(strategy: tf.distribute.Strategy) -> None:
    """Prepare this process for what it does together with the other workers of a new strategy."""
    agree_on_seed(strategy)
    patch_waits()
    keep_order()


def _name_other_weights() -> None:
    """Raise a DataError if the workers make different variables, or weights of different shapes."""
    import tensorflow as tf

    stock = seams.CREATE_VARIABLE.get()

    @seams.CREATE_VARIABLE.wrap
    def create(self: Any, *args: object, **kwargs: object) -> Any:
        name = str(kwargs.get("name") or "a weight")
        ACTIVITY.making = f"{plain_name(name)} ({user_line() or 'in no line of the program'})"
        try:
            return stock(self, *args, **kwargs)
        except (tf.errors.InvalidArgumentError, tf.errors.InternalError) as error:
            other = other_variable(ACTIVITY.making, str(error)) or other_weight(name, str(error))
            if other is None:
                raise
            raise other from None
        finally:
            ACTIVITY.making = None


def _mirror_own_devices() -> None:
    """Let MirroredStrategy take the devices of this process only.

    In a cluster TensorFlow lists the devices of all workers as local ones. A MirroredStrategy that is made
    after a multi-worker strategy then ends the process by SIGSEGV.
    """
    import tensorflow as tf

    stock, context = seams.LOCAL_DEVICES.get(), seams.CONTEXT.get()

    @seams.LOCAL_DEVICES.wrap
    def own_devices(num_gpus: int | None = None) -> Any:
        server = seams.SERVER.of(context(), None)
        if server is None:
            return stock(num_gpus)
        for kind in ("GPU", "CPU"):
            listed = context().list_logical_devices(kind)
            specs = [(device, tf.DeviceSpec.from_string(device.name)) for device in listed]
            here = (server.job_name, server.task_index)
            devices = [device for device, spec in specs if (spec.job, spec.task) == here]
            if devices:
                break
        return devices[:num_gpus] if kind == "GPU" else devices


def _place(
    cluster: object, job_name: str | None, task_index: int | None
) -> tuple[dict[str, list[str]], str, int | None] | None:
    """Return the cluster, job and index that TensorFlow reads from a server's arguments.

    None for arguments that TensorFlow refuses, and for a server of this process alone.
    """
    from tensorflow.core.protobuf import tensorflow_server_pb2

    if isinstance(cluster, tensorflow_server_pb2.ServerDef):
        job_name = cluster.job_name if job_name is None else job_name
        task_index = cluster.task_index if task_index is None else task_index
        cluster = cluster.cluster
    try:
        jobs = _jobs(seams.CLUSTER_SPEC.get()(cluster))
    except (TypeError, ValueError, AttributeError):
        return None
    # tf.distribute.Server.create_local_server() lets the system choose its port.
    if all(str(address).endswith(":0") for addresses in jobs.values() for address in addresses):
        return None
    return jobs, job_name or "", task_index


def _jobs(spec: tf.train.ClusterSpec) -> dict[str, list[str]]:
    return {job: list(spec.job_tasks(job)) for job in spec.jobs}


def patch_run() -> None:
    """Run ``strategy.run`` in the caller's thread if this process has one replica; see the module's text."""
    import tensorflow as tf

    stock = seams.CALL_REPLICAS.get()
    if seams.CALL_REPLICAS.replaced:
        return
    select_replica, regroup = seams.SELECT_REPLICA.get(), seams.REGROUP.get()
    stopped, empty = seams.TAPE_STOPPED.get(), seams.TAPE_EMPTY.get()

    class OnlyReplica(seams.REPLICA_CONTEXT.get()):  # type: ignore[misc]
        """A replica context whose ``merge_call`` needs no second thread."""

        def __init__(self, strategy: tf.distribute.Strategy) -> None:
            super().__init__(strategy, seams.REPLICA_ID.of(strategy.extended)(0))

        def _merge_call(self, fn: Callable[..., object], args: object, kwargs: object) -> Any:
            args, kwargs = (regroup((arguments,)) for arguments in (args, kwargs))
            return select_replica(0, seams.MERGE_CALL.of(super())(fn, args, kwargs))

        def all_reduce(self, reduce_op: object, value: Any, options: object = None) -> Any:
            return value if is_one_process() else super().all_reduce(reduce_op, value, options)

        def all_gather(self, value: Any, axis: int, options: object = None) -> Any:
            if is_one_process():
                return value
            # The loss of a step must be told to be one of all rows.
            if axis == 0 and share_of_rows() is not None and not tf.executing_eagerly():
                return tf.nest.map_structure(all_rows, value)
            return super().all_gather(value, axis, options)

    @seams.CALL_REPLICAS.wrap
    def call_for_each_replica(
        strategy: tf.distribute.Strategy, fn: Callable[..., object], args: Any, kwargs: Any
    ) -> Any:
        # A gradient tape belongs to one thread, so a tape around `strategy.run` records nothing. In this
        # thread it would record the gradients of this worker's rows only.
        taped = stopped() or not empty()
        devices = strategy.extended.worker_devices
        if taped or len(devices) != 1:
            return stock(strategy, fn, args, kwargs)
        with OnlyReplica(strategy):
            args, kwargs = (select_replica(0, arguments) for arguments in (args, kwargs))
            with tf.device(devices[0]):
                return regroup((fn(*args, **kwargs),))

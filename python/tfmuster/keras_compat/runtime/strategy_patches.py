"""Call hooks when a program makes a ``tf.distribute`` strategy or server that connects several processes.

With one replica in this process, its step runs in the caller's thread. TensorFlow traces each replica in a
thread of its own, even a single one, and R functions can be called only in R's thread: a layer, loss, or
metric that is written in R would fail there.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ...system.register import Seam
from .. import seams
from ..agreement.comparison import agree_on_seed, other_weight
from ..agreement.waiting import watch_this_worker
from ..process import note_strategy
from .servers import keep_server, reach_idle_servers

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

    These are all classes of TensorFlow 2 and of ``compat.v1``, whichever way they get their cluster.

    Parameters
    ----------
    begin : callable
        Called before TensorFlow reads TF_CONFIG.
    before : callable
        Called when the cluster is known, before TensorFlow binds a port.
    after : callable
        Called after the strategy is made. The workers of a multi-worker strategy share a seed by then.
    served : callable
        Called after the server is made.
    waits : callable
        Called when a program waits in ``Server.join()``, which never returns.
    joins : callable
        Tells whether this process is to join a cluster of workers. Then it does so before the program makes a
        strategy of its own devices, which starts TensorFlow: a started one can't join any more.
    """

    def at_resolver(seam: Seam) -> None:
        stock = seam.get()

        @functools.wraps(stock)
        def with_resolver(self: Any, cluster_resolver: Any, *args: Any, **kwargs: Any) -> Any:
            if cluster_resolver is not None and (jobs := _jobs(cluster_resolver.cluster_spec())):
                before(jobs, cluster_resolver.task_type or "", cluster_resolver.task_id)
            return stock(self, cluster_resolver, *args, **kwargs)

        seam.replace(with_resolver)

    def at_end(seam: Seam, is_multi_worker: Callable[[Any], bool]) -> None:
        stock = seam.get()

        @functools.wraps(stock)
        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            begin()
            stock(self, *args, **kwargs)
            if is_multi_worker(self):
                note_strategy(self)
                after()

        seam.replace(init)

    def after_joining(seam: Seam) -> None:
        stock = seam.get()

        @functools.wraps(stock)
        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            if joins():
                seams.COLLECTIVE_STRATEGY.get()()
            stock(self, *args, **kwargs)

        seam.replace(init)

    for seam in seams.OWN_DEVICES:
        after_joining(seam)

    def agreed(strategy: Any) -> bool:
        several = bool(seams.IN_MULTI_WORKER_MODE.of(strategy.extended)())
        if several:
            agree_on_seed(strategy)
            watch_this_worker()
        return several

    def with_servers(strategy: Any) -> bool:
        reach_idle_servers()
        return True

    keep_server()
    # Every multi-worker class of TensorFlow passes its resolver to this method, also the default one.
    at_resolver(seams.INITIALIZE_MULTI_WORKER)
    at_end(seams.COLLECTIVE_INIT, agreed)
    at_end(seams.COLLECTIVE_V1_INIT, agreed)
    at_resolver(seams.PS_INITIALIZE)
    at_resolver(seams.PS_INIT)
    at_end(seams.PS_INIT, with_servers)

    _name_other_weights()
    _mirror_own_devices()
    stock_server, stock_join = seams.SERVER_INIT.get(), seams.SERVER_JOIN.get()

    @functools.wraps(stock_server)
    def server(
        self: Any,
        server_or_cluster_def: Any,
        job_name: str | None = None,
        task_index: int | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        place = _place(server_or_cluster_def, job_name, task_index)
        if place is not None:
            before(*place)
        stock_server(self, server_or_cluster_def, job_name, task_index, *args, **kwargs)
        served()

    seams.SERVER_INIT.replace(server)

    @functools.wraps(stock_join)
    def join(self: Any) -> None:
        waits()
        stock_join(self)

    seams.SERVER_JOIN.replace(join)


def _name_other_weights() -> None:
    """Raise a DataError if the workers make a weight in different shapes, for example of different data."""
    import tensorflow as tf

    stock = seams.CREATE_VARIABLE.get()

    @functools.wraps(stock)
    def create(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return stock(self, *args, **kwargs)
        except tf.errors.InvalidArgumentError as error:
            other = other_weight(str(kwargs.get("name") or "a weight"), str(error))
            if other is None:
                raise
            raise other from None

    seams.CREATE_VARIABLE.replace(create)


def _mirror_own_devices() -> None:
    """Let MirroredStrategy take the devices of this process only.

    In a cluster TensorFlow lists the devices of all workers as local ones. A MirroredStrategy that is made
    after a multi-worker strategy then ends the process by SIGSEGV.
    """
    import tensorflow as tf

    stock, context = seams.LOCAL_DEVICES.get(), seams.CONTEXT.get()

    @functools.wraps(stock)
    def own_devices(num_gpus: int | None = None) -> Any:
        server = seams.SERVER.of(context(), None)
        if server is None:
            return stock(num_gpus)
        for kind in ("GPU", "CPU"):
            listed = context().list_logical_devices(kind)
            specs = [(device, tf.DeviceSpec.from_string(device.name)) for device in listed]
            own = [
                device
                for device, spec in specs
                if (spec.job, spec.task) == (server.job_name, server.task_index)
            ]
            if own:
                break
        return own[:num_gpus] if kind == "GPU" else own

    seams.LOCAL_DEVICES.replace(own_devices)


def _place(
    given: Any, job_name: str | None, task_index: int | None
) -> tuple[dict[str, list[str]], str, int | None] | None:
    """Return the cluster and the place in it that TensorFlow reads from the arguments of a server.

    Returns None for arguments that TensorFlow refuses, and for a server of this process alone.
    """
    from tensorflow.core.protobuf import tensorflow_server_pb2

    if isinstance(given, tensorflow_server_pb2.ServerDef):
        job_name = given.job_name if job_name is None else job_name
        task_index = given.task_index if task_index is None else task_index
        given = given.cluster
    try:
        jobs = _jobs(seams.CLUSTER_SPEC.get()(given))
    except (TypeError, ValueError, AttributeError):
        return None
    # tf.distribute.Server.create_local_server() lets the system choose its port.
    if all(str(address).endswith(":0") for addresses in jobs.values() for address in addresses):
        return None
    return jobs, job_name or "", task_index


def _jobs(spec: Any) -> dict[str, list[str]]:
    return {job: list(spec.job_tasks(job)) for job in spec.jobs}


def patch_run() -> None:
    """Replace what ``strategy.run`` does with one device; calling this again does nothing."""
    stock = seams.CALL_REPLICAS.get()
    if seams.CALL_REPLICAS.replaced:
        return
    replica = _context_class()
    stopped, empty = seams.TAPE_STOPPED.get(), seams.TAPE_EMPTY.get()

    @functools.wraps(stock)
    def call_for_each_replica(strategy: Any, fn: Any, args: Any, kwargs: Any) -> Any:
        # A gradient tape belongs to one thread, so a tape around `strategy.run` records nothing. In this
        # thread it would record the gradients of this worker's rows only.
        taped = stopped() or not empty()
        if taped or len(strategy.extended.worker_devices) != 1:
            return stock(strategy, fn, args, kwargs)
        with replica(strategy) as context:
            return context.run(fn, args, kwargs)

    seams.CALL_REPLICAS.replace(call_for_each_replica)


def _context_class() -> Any:
    """Return a replica context whose ``merge_call`` needs no second thread."""
    import tensorflow as tf

    select_replica, regroup = seams.SELECT_REPLICA.get(), seams.REGROUP.get()

    class OnlyReplica(seams.REPLICA_CONTEXT.get()):  # type: ignore[misc]
        def __init__(self, strategy: Any) -> None:
            super().__init__(strategy, seams.REPLICA_ID.of(strategy.extended)(0))

        def __enter__(self) -> Any:
            super().__enter__()
            return self

        def run(self, fn: Any, args: Any, kwargs: Any) -> Any:
            args, kwargs = (select_replica(0, each) for each in (args, kwargs))
            with tf.device(self.strategy.extended.worker_devices[0]):
                return regroup((fn(*args, **kwargs),))

        def _merge_call(self, fn: Any, args: Any, kwargs: Any) -> Any:
            args, kwargs = (regroup((each,)) for each in (args, kwargs))
            return select_replica(0, seams.MERGE_CALL.of(super())(fn, args, kwargs))

    return OnlyReplica

"""Start and keep the servers of TensorFlow's strategies.

**One server.** For each further strategy TensorFlow replaces the state of its collectives, in each worker
at a time of its own (2.21: ``GrpcServer::UpdateServerDef``). What a quicker worker has asked the chief by
then is forgotten, and both wait forever. Nothing has changed, though, if the cluster is the same. So the
server stays as it is, and the strategies draw their keys from one sequence, because an instance of a
collective keeps its shape.

**Idle servers.** gRPC closes connections that nobody uses, by default after half an hour, and networks drop
them. The next call connects again. Calls that give a function to all servers, or take one away, hold
Python's lock until the servers have answered. Then no thread of this process can announce the connection to
the server, whose closed door lets in none that is not announced (:mod:`tfmuster.net.door`): after 20
seconds the call fails. Here, an operation on each server comes first, because operations release the lock.

**Start.** The start of a strategy's server ends when all workers have come. TensorFlow holds Python's lock
until then, so no other thread of this process can run: neither the control channel, which reports that a
worker is gone, nor the thread that guards the port. The same functions are called here by ctypes, which
releases the lock.
"""

from __future__ import annotations

import contextlib
import ctypes
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...net.door import QUIET_SECONDS
from ...system.register import Seam
from .. import seams

if TYPE_CHECKING:
    import tensorflow as tf

_KEYS = "_tfmuster_collective_keys"
_SERVER = "_tfmuster_server"


def keep_server() -> None:
    """Start one server in a process, however many strategies its program makes for the same cluster."""
    stock_enable, context = seams.ENABLE_COLLECTIVES.get(), seams.CONTEXT.get()

    @seams.ENABLE_COLLECTIVES.wrap
    def enable_collective_ops(self: Any, server_def: tf.train.ServerDef) -> None:
        place = _place(server_def)
        if seams.HANDLE.of(self) is not None and getattr(self, _SERVER, None) == place:
            return
        stock_enable(self, server_def)
        setattr(self, _SERVER, place)
        setattr(self, _KEYS, None)

    stock_initialize = seams.INITIALIZE_MULTI_WORKER.get()

    @seams.INITIALIZE_MULTI_WORKER.wrap
    def initialize(self: Any, *args: object, **kwargs: object) -> None:
        stock_initialize(self, *args, **kwargs)
        first, keys = getattr(context(), _KEYS, None), seams.COLLECTIVE_KEYS.of(self)
        if first is None:
            setattr(context(), _KEYS, keys)
        else:
            # Its launchers already have these keys, and the numbers of the groups are those of the first.
            keys.__dict__ = first.__dict__


def _place(server_def: tf.train.ServerDef) -> tuple[bytes, str, int]:
    """Return what TensorFlow's server depends on: the cluster, and the place of this process in it."""
    cluster = server_def.cluster.SerializeToString(deterministic=True)
    return cluster, server_def.job_name, server_def.task_index


def reach_idle_servers() -> None:
    """Reach all servers before calls that hold the lock, if the last one was before doors close."""
    last = time.monotonic()

    def reach_before(seam: Seam) -> None:
        stock = seam.get()

        @seam.wrap
        def call(*args: object, **kwargs: object) -> Any:
            nonlocal last
            now, before = time.monotonic(), last
            last = now
            if now - before > QUIET_SECONDS:
                _reach_all()
                last = time.monotonic()
            return stock(*args, **kwargs)

    for seam in (seams.ADD_C_FUNCTION, seams.ADD_FUNCTION_DEF, seams.REMOVE_FUNCTION):
        if not seam.replaced:
            reach_before(seam)


def _reach_all() -> None:
    import tensorflow as tf

    def reach(device: str) -> None:
        # An operation without inputs: to copy one to the server would hold the lock, too. A server that does
        # not answer is reported by the call that follows.
        with contextlib.suppress(tf.errors.OpError), tf.device(device):
            tf.raw_ops.Timestamp()

    names = [device.name for device in seams.CONTEXT.get()().list_logical_devices("CPU")]
    servers = [name for name in names if "/job:chief/" not in name and "/job:localhost/" not in name]
    if servers:
        # The threads run eagerly, also if this one traces a function. While Python ends, none can be started.
        with contextlib.suppress(RuntimeError), ThreadPoolExecutor(len(servers)) as threads:
            list(threads.map(reach, servers))


def release_lock_at_start(before: Callable[[], None]) -> bool:
    """Call `before`, then release the lock while TensorFlow waits for others. Return whether that works."""
    if seams.C_ENABLE_COLLECTIVES.replaced:
        return True
    library = _library() if seams.C_ENABLE_COLLECTIVES.fits else None
    if library is None:
        return False
    error_of = seams.ERROR_OF_CODE.get()
    get_name = ctypes.pythonapi.PyCapsule_GetName
    get_name.argtypes, get_name.restype = [ctypes.py_object], ctypes.c_void_p
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.argtypes, get_pointer.restype = [ctypes.py_object, ctypes.c_void_p], ctypes.c_void_p

    @seams.C_ENABLE_COLLECTIVES.wrap
    def enable(context: object, server_def: bytes) -> None:
        before()
        status = library.TF_NewStatus()
        try:
            handle = get_pointer(context, get_name(context))
            library.TFE_EnableCollectiveOps(handle, server_def, len(server_def), status)
            code, message = library.TF_GetCode(status), library.TF_Message(status).decode(errors="replace")
        finally:
            library.TF_DeleteStatus(status)
        if code:
            raise error_of(code)(None, None, message)

    return True


def _library() -> ctypes.CDLL | None:
    """Return TensorFlow's C library; None if this TensorFlow has it under another name."""
    import tensorflow as tf

    folder = Path(tf.sysconfig.get_lib())
    for path in (*folder.glob("libtensorflow_cc.so.2"), *folder.glob("libtensorflow_cc.2.dylib")):
        library = ctypes.CDLL(str(path))
        if hasattr(library, "TFE_EnableCollectiveOps"):
            pointer = ctypes.c_void_p
            library.TF_NewStatus.restype = pointer
            library.TF_DeleteStatus.argtypes = [pointer]
            library.TF_GetCode.argtypes = [pointer]
            library.TF_Message.argtypes = [pointer]
            library.TF_Message.restype = ctypes.c_char_p
            library.TFE_EnableCollectiveOps.argtypes = [pointer, ctypes.c_char_p, ctypes.c_size_t, pointer]
            library.TFE_EnableCollectiveOps.restype = None
            return library
    return None

"""Let all multi-worker strategies of a process use the server that the first one has started.

For each further strategy TensorFlow replaces the state of its collectives, in each worker at a time of its
own (2.21: ``GrpcServer::UpdateServerDef``). What a quicker worker has asked the chief by then is forgotten,
and both wait forever. Nothing has changed, though, if the cluster is the same. So the server stays as it is,
and the strategies draw their keys from one sequence, because an instance of a collective keeps its shape.
"""

from __future__ import annotations

import functools
from typing import Any

from . import seams

_KEYS = "_tfmuster_collective_keys"
_SERVER = "_tfmuster_server"


def keep_server() -> None:
    """Start one server in a process, however many strategies its program makes for the same cluster."""
    stock_enable, context = seams.ENABLE_COLLECTIVES.get(), seams.CONTEXT.get()

    @functools.wraps(stock_enable)
    def enable_collective_ops(self: Any, server_def: Any) -> None:
        place = _place(server_def)
        if seams.HANDLE.of(self) is not None and getattr(self, _SERVER, None) == place:
            return
        stock_enable(self, server_def)
        setattr(self, _SERVER, place)
        setattr(self, _KEYS, None)

    seams.ENABLE_COLLECTIVES.replace(enable_collective_ops)
    stock_initialize = seams.INITIALIZE_MULTI_WORKER.get()

    @functools.wraps(stock_initialize)
    def initialize(self: Any, *args: Any, **kwargs: Any) -> None:
        stock_initialize(self, *args, **kwargs)
        first, own = getattr(context(), _KEYS, None), seams.COLLECTIVE_KEYS.of(self)
        if first is None:
            setattr(context(), _KEYS, own)
        else:
            # Its launchers already have these keys, and the numbers of the groups are those of the first.
            own.__dict__ = first.__dict__

    seams.INITIALIZE_MULTI_WORKER.replace(initialize)


def _place(server_def: Any) -> tuple[bytes, str, int]:
    """Return what TensorFlow's server depends on: the cluster, and the place of this process in it."""
    cluster = server_def.cluster.SerializeToString(deterministic=True)
    return cluster, server_def.job_name, server_def.task_index

"""Let all multi-worker strategies of a process use the server that the first one has started.

For each further strategy TensorFlow replaces the state of its collectives, in each worker at a time of its
own (2.21: ``GrpcServer::UpdateServerDef``). What a quicker worker has asked the chief by then is forgotten,
and both wait forever. Nothing has changed, though, if the cluster is the same. So the server stays as it is,
and the strategies draw their keys from one sequence, because an instance of a collective keeps its shape.
"""

from __future__ import annotations

import functools
from typing import Any

_KEYS = "_tfmuster_collective_keys"
_SERVER = "_tfmuster_server"


def keep_server() -> None:
    """Start one server in a process, however many strategies its program makes for the same cluster."""
    from tensorflow.python.distribute import collective_all_reduce_strategy as collective
    from tensorflow.python.eager import context

    stock_enable = context.Context.enable_collective_ops

    @functools.wraps(stock_enable)
    def enable_collective_ops(self: Any, server_def: Any) -> None:
        place = _place(server_def)
        if self._context_handle is not None and getattr(self, _SERVER, None) == place:
            return
        stock_enable(self, server_def)
        setattr(self, _SERVER, place)
        setattr(self, _KEYS, None)

    context.Context.enable_collective_ops = enable_collective_ops
    extended = collective.CollectiveAllReduceExtended
    stock_initialize = extended._initialize_multi_worker

    @functools.wraps(stock_initialize)
    def initialize(self: Any, *args: Any, **kwargs: Any) -> None:
        stock_initialize(self, *args, **kwargs)
        first = getattr(context.context(), _KEYS, None)
        if first is None:
            setattr(context.context(), _KEYS, self._collective_keys)
        else:
            # Its launchers already have these keys, and the numbers of the groups are those of the first.
            self._collective_keys.__dict__ = first.__dict__

    extended._initialize_multi_worker = initialize


def _place(server_def: Any) -> tuple[bytes, str, int]:
    """Return what TensorFlow's server depends on: the cluster, and the place of this process in it."""
    cluster = server_def.cluster.SerializeToString(deterministic=True)
    return cluster, server_def.job_name, server_def.task_index

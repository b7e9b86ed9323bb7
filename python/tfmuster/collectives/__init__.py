"""Sum tensors over the workers of a job on CPUs, over connections of tfmuster's own.

TensorFlow's collectives on CPUs send each value through gRPC and copy it about ten times. Here a worker
writes the memory of its tensors to TCP sockets, one for each other worker, which the rendezvous has made and
authenticated. :file:`exchange.c` describes the algorithm and is the fast implementation, an operation of
TensorFlow. :mod:`.in_numpy` speaks the same protocol on machines without a C compiler; workers with different
implementations work together.

One process has at most one :class:`.group.Group`, as TensorFlow allows one multi-worker strategy.
"""

from __future__ import annotations

from .group import ABORTED, OTHER_OPERATION, Group, Times, current_group, open_group

__all__ = ["ABORTED", "OTHER_OPERATION", "Group", "Times", "current_group", "open_group"]

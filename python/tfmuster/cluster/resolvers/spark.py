"""Find the task of a process of Spark's barrier stage, from the data that sparklyr gives it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ...errors import ClusterError
from ...words import Value
from ..spec import Cluster
from ..tf_config import tf_config_json

_PORT = re.compile(r":[0-9]+$")


def tf_config_from_barrier(barrier: Mapping[str, object], base_port: int = 8000) -> str:
    """Write the TF_CONFIG text of one task inside sparklyr's ``spark_apply(..., barrier = TRUE)``.

    Every partition is a worker. Its host is that of its executor, whose own port is in use. Partition 0 gets
    the port after `base_port`, partition 1 the next, and so on, so that tasks on one machine have different
    ports. These ports must be free on all executors, and open between them.

    Parameters
    ----------
    barrier : mapping
        The argument that sparklyr passes: ``address``, the address of each partition's executor, and
        ``partition``, this task's number, from 0.
    base_port : int
        The first port minus 1.

    Returns
    -------
    str
        The value for the variable TF_CONFIG.

    Raises
    ------
    ClusterError
        The barrier has another form, or its addresses do not form a cluster.
    """
    addresses = barrier.get("address") if isinstance(barrier, Mapping) else None
    partition = barrier.get("partition") if isinstance(barrier, Mapping) else None
    if isinstance(addresses, str):
        # R passes a vector of length 1 as a string.
        addresses = [addresses]
    if (
        not isinstance(addresses, Sequence)
        or not addresses
        or not all(isinstance(address, str) for address in addresses)
        or isinstance(partition, bool)
        or not isinstance(partition, (int, float))
        or partition != int(partition)
    ):
        raise ClusterError(
            "barrier must be what spark_apply(..., barrier = TRUE) gives: addresses and a partition.",
            found=str(Value(barrier))[:200],
            fix="Define function(df, barrier), and pass its second argument to tf_config_from_barrier().",
            findings=[],
        )
    workers = [f"{_host(address)}:{base_port + number}" for number, address in enumerate(addresses, 1)]
    return tf_config_json(Cluster(worker=workers).task("worker", int(partition)))


def _host(address: str) -> str:
    """Remove the port of an address, and put IPv6 in brackets."""
    bare = address if address.endswith("]") else _PORT.sub("", address)
    return f"[{bare}]" if ":" in bare and not bare.startswith("[") else bare

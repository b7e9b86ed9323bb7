"""The place of a task of Spark's barrier stage, from what sparklyr tells each of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ...errors import ClusterError
from ..spec import Cluster
from ..tf_config import tf_config_json

_PORT = re.compile(r":[0-9]+$")


def tf_config_from_barrier(barrier: Mapping[str, Any], base_port: int = 8000) -> str:
    """The TF_CONFIG text of one task inside sparklyr's ``spark_apply(..., barrier = TRUE)``.

    Every partition is a worker. The addresses are those of the executors, whose ports are in use: partition 0
    gets the port after `base_port`, partition 1 the next, and so on, so that tasks on one machine have
    different ones. These ports must be free on all executors, and open between them.

    Parameters
    ----------
    barrier : mapping
        As sparklyr gives it: ``address``, the address of each partition's executor, and ``partition``, this
        task's number, from 0 on.
    base_port : int
        The number before the first port.

    Returns
    -------
    str
        The text, for the variable TF_CONFIG.

    Raises
    ------
    ClusterError
        It is no such barrier, or no cluster can be made of it.
    """
    addresses = barrier.get("address") if isinstance(barrier, Mapping) else None
    partition = barrier.get("partition") if isinstance(barrier, Mapping) else None
    if isinstance(addresses, str):
        # R's vector of one.
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
            found=repr(barrier)[:200],
            fix="Give the function two arguments, function(df, barrier), and pass the second one on.",
            findings=[],
        )
    workers = [f"{_host(address)}:{base_port + number}" for number, address in enumerate(addresses, 1)]
    return tf_config_json(Cluster(worker=workers).task("worker", int(partition)))


def _host(address: str) -> str:
    """An address without its port; IPv6 in brackets."""
    bare = address if address.endswith("]") else _PORT.sub("", address)
    return f"[{bare}]" if ":" in bare and not bare.startswith("[") else bare

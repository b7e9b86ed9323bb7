"""Meet as many workers, each a process, and sum with all of them. Usage: many_sums.py WORKERS.

Prints "equal" if every worker has the sums that one process computes, "none" if there are no connections.
"""

import os
import sys

import numpy as np

from tfmuster.cluster.spec import Cluster
from tfmuster.collectives import current_group
from tfmuster.net.ports import free_ports
from tfmuster.rendezvous.task.meet import muster

#: Sizes that are sent whole, in slices, and through memory.
SIZES = (3, 40_001, 700_003)


def values(rank, size):
    """The values of a worker, which all workers can make. Their sums are exact."""
    return np.random.default_rng([rank, size]).integers(-99, 99, size).astype("float32")


def take_part(task):
    """Return 0 if all sums are right, 3 without connections."""
    control = muster(task, timeout=60, versions={}, on_progress=lambda _: None, link=True)
    group = current_group()
    workers = len(task.cluster)
    if group is None:
        control.done()
        return 3
    for size in SIZES:
        total = group.sum_arrays([values(task.index, size)])[0]
        if not np.array_equal(total, sum(values(rank, size) for rank in range(workers))):
            return 1
    control.done()
    return 0


def main():
    """Fork the workers."""
    workers = int(sys.argv[1])
    cluster = Cluster(worker=[f"127.0.0.1:{port}" for port in free_ports(workers)])
    children = []
    for index in range(workers):
        child = os.fork()
        if not child:
            code = 1
            try:
                code = take_part(cluster.task("worker", index))
            finally:
                sys.stdout.flush()
                os._exit(code)
        children.append(child)
    codes = {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children}
    print({(0,): "equal", (3,): "none"}.get(tuple(codes), codes))


if __name__ == "__main__":
    main()

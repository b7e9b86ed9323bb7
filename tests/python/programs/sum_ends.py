"""Sum large vectors until one of two workers ends. Usage: sum_ends.py HOW WAY

HOW: "killed", or "frozen", after which the other one is told that the job has failed. Prints what it says.
WAY: "C" or "numpy".
"""

import os
import signal
import sys
import threading
import time

import numpy as np
from sum_bits import forked

from tfmuster.collectives import Group
from tfmuster.collectives.transport import SumError

frozen = sys.argv[1] == "frozen"


def work(rank, sockets):
    """Sum 40 MB again and again; worker 1 ends in the middle of it."""
    group = Group(rank, ["worker 0", "worker 1"], sockets)
    if sys.argv[2] == "numpy":
        group._use_numpy("the test wants it")
    values = [np.ones(10_000_000, "float32")]
    for _ in range(3):
        group.sum_arrays(values)
    if rank:
        end = signal.SIGSTOP if frozen else signal.SIGKILL
        threading.Timer(0.3, os.kill, [os.getpid(), end]).start()
    elif frozen:
        threading.Timer(1.5, group.abort, ["worker 1 (host b, pid 12) is frozen"]).start()
    begin = time.monotonic()
    try:
        while time.monotonic() < begin + 20:
            group.sum_arrays(values)
    except SumError as error:
        print(error, f"{time.monotonic() - begin:.1f}", sep="|", flush=True)


first, second = forked([0, 0], work)
os.waitpid(first, 0)
os.kill(second, signal.SIGKILL)
os.waitpid(second, 0)

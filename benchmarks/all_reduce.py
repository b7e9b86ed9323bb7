"""All-reduces of float32 between workers of one core each: tfmuster's sums, TensorFlow's, and gloo's.

Usage: all_reduce.py [--workers 2] [--megabytes 1.4,10,100] [--turns 7]

All kinds wait side by side in processes of their own and measure in turns, in one run. A cell is the best
and the median time of an all-reduce in milliseconds, the processor's time for it in each worker, and the
median ratio to the limit within a turn.

TCP, no sum         sends and receives as many bytes over equal connections; the limit (`tcp_limit.c`)
TCP, the system's   the same with the congestion control that the system chooses; tfmuster takes Reno's
                    between processes of one machine
C                   tfmuster's sum, called on buffers, as workers of one machine do it
C, over TCP         the same without reading each other's memory, as between machines
C, in a graph       the same as TensorFlow's operation in a tf.function
numpy               the same protocol with numpy, where there is no C compiler
TensorFlow          its own collective: communication "tensorflow"
MPI, memory         MPI_Allreduce of Open MPI on buffers, by mpi4py, with all that it has on one machine
MPI, TCP            the same over TCP alone
gloo                PyTorch's, if .venvs/torch is there (`make .stamps/torch`)

With two workers, fails if C takes more than 1.3 times the limit at 10 MB and more, more than 1.0 ms at less
than 2 MB, or more than gloo.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from process_group import Group, answer_questions

HERE = Path(__file__).parent
TORCH = HERE.parent / ".venvs" / "torch" / "bin" / "python"
LIMIT, SMALL_MS = 1.3, 1.0
BASE = "TCP, no sum"
#: The process that measures each kind.
KINDS = {
    BASE: "plain",
    "TCP, the system's": "plain",
    "C": "memory",
    "C, over TCP": "plain",
    "C, in a graph": "direct",
    "numpy": "plain",
    "TensorFlow": "stock",
    "MPI, memory": "mpi",
    "MPI, TCP": "mpi-tcp",
    "gloo": "torch",
}
MPIRUN = ("mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none")
MPI_OPTIONS = {"mpi": (), "mpi-tcp": ("--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo")}


def place() -> tuple[int, list[str]]:
    """The number of this worker, and all addresses."""
    found = json.loads(os.environ["TF_CONFIG"])
    return found["task"]["index"], found["cluster"]["worker"]


#: What must not be collected: sockets close themselves.
_open: list[Any] = []


class Pairs:
    """Connections to all other workers, as many sets as are asked for, over this worker's own port."""

    def __init__(self) -> None:
        self.rank, self.addresses = place()
        self.sets = 0
        self.early: dict[tuple[int, int], socket.socket] = {}
        self.listening = socket.create_server(self._address(self.rank), backlog=64)

    def _address(self, rank: int) -> tuple[str, int]:
        host, _, port = self.addresses[rank].rpartition(":")
        return host, int(port)

    def connect(self) -> list[socket.socket | None]:
        """One more set of connections; all workers do it at the same time."""
        found: list[socket.socket | None] = [None] * len(self.addresses)
        for other in range(self.rank):
            for _ in range(600):
                try:
                    found[other] = made = socket.create_connection(self._address(other))
                    break
                except ConnectionRefusedError:
                    time.sleep(0.1)
            made.sendall(bytes([self.sets, self.rank]))
        for other in range(self.rank + 1, len(self.addresses)):
            while (self.sets, other) not in self.early:
                made, _ = self.listening.accept()
                self.early[made.recv(1)[0], made.recv(1)[0]] = made
            found[other] = self.early.pop((self.sets, other))
        self.sets += 1
        return found


def with_memory() -> dict[str, Callable[[int], Callable[[], Any]]]:
    """The C code, whose workers read each other's memory."""
    from tfmuster.collectives import Group as Sums

    pairs = Pairs()
    group = Sums(pairs.rank, pairs.addresses, pairs.connect())
    return {"C": in_c(group)}


def in_c(group: Any) -> Callable[[int], Callable[[], Any]]:
    """The C code, called on buffers. Its process has no other group with it."""
    import numpy as np

    from tfmuster.collectives import group

    assert not group.why_numpy, group.why_numpy
    group._start()
    library = group.library()
    _open.append(group)

    def of(size: int) -> Callable[[], Any]:
        values, sums = np.zeros(size, "float32"), np.ones(size, "float32")
        given = [(ctypes.c_void_p * 1)(array.ctypes.data) for array in (values, sums)]
        _open.append(sums)

        def run() -> None:
            sizes = (ctypes.c_int64 * 1)(values.size)
            if library.tfmuster_sum(1, *given, sizes, 1, 0, 0):
                raise SystemExit(library.tfmuster_failure().decode())

        return run

    return of


def plain() -> dict[str, Callable[[int], Callable[[], Any]]]:
    """The kinds without TensorFlow: for so many values, a function that does an all-reduce."""
    import numpy as np

    from tfmuster.collectives import Group as Sums

    pairs = Pairs()
    rank, names = pairs.rank, pairs.addresses
    sets = [pairs.connect() for _ in range(4)]
    with tempfile.TemporaryDirectory() as folder:
        command = ["cc", "-O2", "-shared", "-fPIC", "-o", f"{folder}/limit.so", str(HERE / "tcp_limit.c")]
        subprocess.run(command, check=True)
        exchange = ctypes.CDLL(f"{folder}/limit.so").exchange_bytes
    exchange.argtypes = [ctypes.c_int, ctypes.c_int, *[ctypes.c_void_p] * 3, ctypes.c_size_t]
    compiled, in_numpy, reno = (Sums(rank, names, made) for made in sets[:3])
    in_numpy._use_numpy("the benchmark wants it")
    compiled.share = False
    _open.extend([compiled, in_numpy, reno, sets])
    for made in sets[3]:
        if made is not None:
            made.setblocking(False)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def limit(sockets: Any) -> Callable[[int], Callable[[], Any]]:
        files = (ctypes.c_int * len(names))(*[-1 if each is None else each.fileno() for each in sockets])

        def of(size: int) -> Callable[[], Any]:
            out, into = np.zeros(size, "float32"), np.ones(size, "float32")
            return lambda: exchange(rank, len(names), files, out.ctypes.data, into.ctypes.data, out.nbytes)

        return of

    def with_numpy(size: int) -> Callable[[], Any]:
        values = np.zeros(size, "float32")
        return lambda: in_numpy.sum_arrays([values])

    return {
        BASE: limit(reno._sockets),
        "TCP, the system's": limit(sets[3]),
        "C, over TCP": in_c(compiled),
        "numpy": with_numpy,
    }


def with_tensorflow() -> dict[str, Callable[[int], Callable[[], Any]]]:
    """The kind of this process's environment."""
    import tensorflow as tf

    import tfmuster
    from tfmuster.keras_compat.sums import collectives

    strategy = tfmuster.strategy("multi_worker_mirrored")
    direct = collectives.group_of(strategy) is not None
    assert direct is (os.environ.get("TFMUSTER_COMMUNICATION") != "tensorflow")

    def of(size: int) -> Callable[[], Any]:
        value = tf.Variable(tf.zeros(size))

        @tf.function
        def step() -> Any:
            return strategy.run(lambda: collectives.replica_sum(value.read_value())[0])

        return lambda: float(step())

    return {"C, in a graph" if direct else "TensorFlow": of}


def with_torch() -> dict[str, Callable[[int], Callable[[], Any]]]:
    """Gloo."""
    import torch
    from torch import distributed

    rank, addresses = place()
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"tcp://{addresses[0]}", rank=rank, world_size=len(addresses)
    )

    def of(size: int) -> Callable[[], Any]:
        value = torch.zeros(size)
        return lambda: distributed.all_reduce(value)

    return {"gloo": of}


def with_mpi() -> dict[str, Callable[[int], Callable[[], Any]]]:
    """MPI, on the way that the options of mpirun have chosen."""
    import numpy as np
    from mpi4py import MPI

    os.sched_setaffinity(0, {MPI.COMM_WORLD.rank % (os.cpu_count() or 1)})

    def of(size: int) -> Callable[[], Any]:
        values, sums = np.zeros(size, "float32"), np.ones(size, "float32")
        return lambda: MPI.COMM_WORLD.Allreduce(values, sums)

    return {name: of for name in KINDS if name.startswith("MPI")}


def answer_for_all_ranks(measure: Callable[..., Any]) -> None:
    """Let all ranks of MPI measure what the first one is asked, and answer with the slowest of each time."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD

    def together(*question: Any) -> Any:
        tell(question)
        times, cpu = measure(*question)
        found = world.gather((times, cpu))
        slowest = [max(each) for each in zip(*(times for times, _ in found), strict=True)]
        return slowest, statistics.fmean(cpu for _, cpu in found)

    def tell(question: Any) -> None:
        for rank in range(1, world.size):
            world.send(question, rank)

    if world.rank == 0:
        answer_questions(together)
        tell(None)
        return
    while True:
        while not world.iprobe(0):
            time.sleep(0.001)  # MPI itself would not sleep, and take the core from the other kinds
        question = world.recv(source=0)
        if question is None:
            return
        world.gather(measure(*question))


def worker(kind: str) -> None:
    """Answer with the seconds of each all-reduce, and the seconds of the processor for one."""
    ways = {"plain": plain, "memory": with_memory, "torch": with_torch, "mpi": with_mpi, "mpi-tcp": with_mpi}
    kinds = ways.get(kind, with_tensorflow)()
    made: dict[str, tuple[int, Callable[[], Any]]] = {}

    def measure(name: str, size: int, count: int) -> Any:
        if made.get(name, (0,))[0] != size:
            made[name] = size, kinds[name](size)
            made[name][1]()
        run, times, before = made[name][1], [], time.process_time()
        for _ in range(count):
            begin = time.perf_counter()
            run()
            times.append(time.perf_counter() - begin)
        return times, (time.process_time() - before) / count

    (answer_for_all_ranks if kind in MPI_OPTIONS else answer_questions)(measure)


def measured(groups: dict[str, Group], size: int, turns: int) -> dict[str, tuple[float, ...]]:
    """For each kind, best, median and processor's milliseconds, and the ratio to the limit."""
    count = max(4, min(60, 20_000_000 // size))
    walls: dict[str, list[float]] = {name: [] for name in groups}
    medians: dict[str, list[float]] = {name: [] for name in groups}
    cpus: dict[str, list[float]] = {name: [] for name in groups}
    for turn in range(turns + 1):  # the first one warms up
        for name in groups if turn % 2 else reversed(groups):
            answers = groups[name].ask(name, size, count)
            if turn:
                each = [max(of) for of in zip(*(times for times, _ in answers), strict=True)]
                walls[name] += each
                medians[name].append(statistics.median(each))
                cpus[name].append(statistics.fmean(cpu for _, cpu in answers))
    return {
        name: (
            1000 * min(walls[name]),
            1000 * statistics.median(walls[name]),
            1000 * statistics.median(cpus[name]),
            statistics.median(a / b for a, b in zip(medians[name], medians[BASE], strict=True)),
        )
        for name in groups
    }


def main() -> int:
    """Measure, print a table, and return 1 if a limit is passed."""
    from tfmuster.net.ports import free_ports

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--megabytes", type=lambda text: [float(n) for n in text.split(",")], default="1.4,10,100"
    )
    parser.add_argument("--turns", type=int, default=7)
    given = parser.parse_args()
    made: dict[str, Group] = {}
    for process in dict.fromkeys(KINDS.values()):
        if process == "torch" and not TORCH.exists():
            continue
        if process in MPI_OPTIONS:
            if shutil.which(MPIRUN[0]):
                command = [*MPIRUN, *MPI_OPTIONS[process], "-n", str(given.workers)]
                made[process] = Group(["worker", process], 1, [], prefixes=[command])
            continue
        addresses = [f"127.0.0.1:{port}" for port in free_ports(given.workers)]
        more = {"TFMUSTER_COMMUNICATION": "tensorflow"} if process == "stock" else {}
        python = str(TORCH if process == "torch" else sys.executable)
        made[process] = Group(["worker", process], given.workers, addresses, python=python, **more)
    groups = {name: made[process] for name, process in KINDS.items() if process in made}
    found = {mb: measured(groups, round(mb * 250_000), given.turns) for mb in given.megabytes}
    for group in made.values():
        group.end()
    print("| all-reduce, ms |", " | ".join(f"{mb:g} MB" for mb in found), "|")
    print("|---|" + "---|" * len(found))
    for name in groups:
        cells = [
            f"{best:.2f} / {median:.2f} ({cpu:.2f}), {ratio:.2f}"
            for best, median, cpu, ratio in (of[name] for of in found.values())
        ]
        print(f"| {name} |", " | ".join(cells), "|")
    if given.workers != 2:
        return 0
    slow = [
        mb
        for mb, of in found.items()
        if (of["C"][1] > SMALL_MS if mb < 2 else of["C"][3] > LIMIT)
        or ("gloo" in of and of["C"][1] > of["gloo"][1])
    ]
    return int(bool(slow))


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        worker(sys.argv[2])
    else:
        raise SystemExit(main())

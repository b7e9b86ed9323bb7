"""Compare the sums of workers with a sequential sum in the order of the workers, bit by bit.

Usage: sum_bits.py [--numpy RANK ...] --machines MACHINE ...

Each worker has the number of its machine. Workers of --numpy sum with numpy; the others sum in C.
"""

import argparse
import ctypes
import functools
import os
import signal
import socket
import traceback

import numpy as np

from tfmuster.collectives import Group

#: Sizes of the tensors of an operation: none, odd ones, over several pieces, many small ones, empty ones.
SIZES = [
    (0,),
    (1,),
    (0, 5, 0, 0, 3),
    (31, 33, 1),
    (16_384,),
    (12_289, 4_096),
    (100_003,),
    (7,) * 700,
    (0, *range(300)),
    (1_200_011, 3, 0, 800_001, 65_536),
]
#: Types, and what they are sent as.
KINDS = [(dtype, None) for dtype in ("float32", "float64", "int32", "int64")]
KINDS += [("float32", "bfloat16"), ("float32", "float16")]


# The workers are forked when all of them are known.
@functools.cache
def values(rank, sizes, dtype, seed):
    """The tensors of a worker."""
    made = np.random.default_rng([seed, rank])
    if dtype.startswith("int"):
        limits = np.iinfo(dtype)
        return [made.integers(limits.min, limits.max, size, dtype) for size in sizes]
    found = []
    for size in sizes:
        tensor = (made.standard_normal(size) * 10.0 ** made.integers(-6, 5, size)).astype(dtype)
        special = made.random(size)
        tensor[special < 0.01] = -0.0
        tensor[special > 0.999] = np.inf
        found.append(tensor)
    return found


def narrowed(tensor, wire):
    """The values as they arrive."""
    import ml_dtypes

    with np.errstate(over="ignore"):
        return tensor.astype(ml_dtypes.bfloat16 if wire == "bfloat16" else wire).astype(tensor.dtype)


def added(parts, wire):
    """The sequential sum of what arrives."""
    totals = None
    for mine in parts:
        if wire:
            mine = [narrowed(tensor, wire) for tensor in mine]
        with np.errstate(over="ignore", invalid="ignore"):
            totals = mine if totals is None else [a + b for a, b in zip(totals, mine, strict=True)]
    return totals


@functools.cache
def expected(machines, sizes, dtype, wire, seed):
    """The sum that all get, in 16 bits if it was sent in two stretches.

    Each machine's workers add theirs first, if there are several machines and the vector is large.
    """
    size = np.dtype(dtype).itemsize
    parts = [values(rank, sizes, dtype, seed) for rank in range(len(machines))]
    slices = 1
    if sum(sizes) * size >= 2**20 and 1 < len(set(machines)) < len(machines):
        found = {machine: [] for machine in machines}
        for part, machine in zip(parts, machines, strict=True):
            found[machine].append(part)
        parts = [added(each, wire) for each in found.values()]
        slices = min(map(len, found.values()))
    whole = len(parts) == 2 or sum(sizes) * (2 if wire else size) * (len(parts) - 1) / slices <= 196_608
    totals = added(parts, wire)
    return [narrowed(total, wire) for total in totals] if wire and not whole else totals


def bits(tensor):
    """The bits; all NaNs are alike."""
    tensor = np.where(np.isnan(tensor), np.nan, tensor) if tensor.dtype.kind == "f" else tensor
    tensor = np.ascontiguousarray(tensor)
    return tensor.view(np.uint32 if tensor.itemsize == 4 else np.uint64)


class Memory(ctypes.Structure):
    """An ``iovec`` of the C library."""

    _fields_ = (("start", ctypes.c_void_p), ("size", ctypes.c_size_t))


def siblings_can_read_each_other():
    """Whether the kernel lets a process read the memory of another one with the same parent."""
    mark, found = ctypes.c_uint64(7), ctypes.c_uint64(0)
    libc = ctypes.CDLL(None)
    other = os.fork()
    if not other:
        signal.pause()
        os._exit(0)
    reader = os.fork()
    if not reader:
        here, there = (Memory(ctypes.addressof(each), 8) for each in (found, mark))
        got = libc.process_vm_readv(other, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
        os._exit(0 if got == 8 and found.value == 7 else 1)
    code = os.waitpid(reader, 0)[1]
    os.kill(other, signal.SIGKILL)
    os.waitpid(other, 0)
    return code == 0


def worker(rank, sockets, machines, *, in_numpy, any_in_numpy):
    """Compare all sums, with and without reading the others' memory; return what was sent in each case."""
    sent = []
    for share in (True, False):
        group = Group(rank, [f"worker {r}" for r in range(len(sockets))], sockets)
        group.share = share
        if in_numpy:
            group._use_numpy("the test wants it")
        else:
            assert not group.why_numpy, group.why_numpy
        added_by_machine = share and not any_in_numpy
        compare(group, rank, machines if added_by_machine else (0,) * len(sockets))
        sent.append(group.times().sent)
    return sent


def compare(group, rank, machines):
    """Compare all sums."""
    for seed, sizes in enumerate(SIZES):
        for dtype, wire in KINDS:
            found = group.sum_arrays(values(rank, sizes, dtype, seed), wire=wire)
            wanted = expected(machines, sizes, dtype, wire, seed)
            for sum_, total in zip(found, wanted, strict=True):
                differ = np.flatnonzero(bits(sum_) != bits(total))
                assert not differ.size, (machines, rank, sizes[:9], dtype, wire, differ[:5], sum_[differ[:5]])


def forked(machines, work):
    """Fork the workers, connected in pairs: `work(rank, sockets)`. Return their process ids.

    Each number of a machine stands for an address of this one.
    """
    workers = len(machines)
    sockets = [[None] * workers for _ in range(workers)]
    for r in range(workers):
        for other in range(r):
            here, there = (f"127.0.0.{1 + machines[each]}" for each in (r, other))
            with socket.create_server((there, 0)) as listening:
                made = socket.create_connection(listening.getsockname(), source_address=(here, 0))
                sockets[r][other], sockets[other][r] = made, listening.accept()[0]
    children = []
    for rank in range(workers):
        child = os.fork()
        if not child:
            code = 1
            try:
                for r, of in enumerate(sockets):
                    for made in of if r != rank else []:
                        if made is not None:
                            made.close()
                work(rank, sockets[rank])
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        children.append(child)
    for of in sockets:
        for made in of:
            if made is not None:
                made.close()
    return children


def main():
    """Start the workers; 0 if all sums are equal."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--machines", type=int, nargs="+")
    parser.add_argument("--numpy", type=int, nargs="+", default=[])
    given = parser.parse_args()
    machines, in_numpy = tuple(given.machines), given.numpy
    for places in {(0,) * len(machines), (0,) * len(machines) if in_numpy else machines}:
        for seed, sizes in enumerate(SIZES):
            for dtype, wire in KINDS:
                expected(places, sizes, dtype, wire, seed)
    readable = siblings_can_read_each_other()

    def work(rank, sockets):
        sent = worker(rank, sockets, machines, in_numpy=rank in in_numpy, any_in_numpy=bool(in_numpy))
        # If all can read the memory of their machines, large vectors are sent between machines alone. numpy
        # can do so if there is one machine.
        reads = readable and (not in_numpy or len(set(machines)) == 1)
        expected = sent_share(machines, rank) if reads else 1
        assert abs(sent[0] / sent[1] - expected) < 0.1, (sent, expected)

    return int(any([os.waitpid(child, 0)[1] for child in forked(machines, work)]))


def sent_share(machines, rank):
    """What a worker sends of a large vector, over what it would send without reading memory."""
    workers, counts = len(machines), [machines.count(each) for each in set(machines)]
    slices, place = min(counts), machines[:rank].count(machines[rank])
    if place >= slices:
        return 0
    between = 2 * (len(counts) - 1) / len(counts) / slices
    return between / (2 * (workers - 1) / workers)


if __name__ == "__main__":
    raise SystemExit(main())

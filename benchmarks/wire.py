"""All-reduces between machines on a slower wire: how much of its rate they use.

Usage: wire.py [--hosts 4] [--each 1] [--megabits 1000,10000] [--megabytes 100] [--turns 5]

Run it as root with PYTHONPATH=tests/python, where the package support is. The machines are network namespaces
on a bridge, and a token bucket limits what each sends and gets. Linux has netem, which could delay as well,
only as a module that not every kernel has. All machines share the processors of this one.

A cell is the median time of an all-reduce in milliseconds, and the rate that it used over the wire's, if each
of n machines sent and got 2 (n - 1) / n times the vector. With several workers on each machine (--each), sums
over TCP send more than that.

TCP, no sum    sends and receives as many bytes over equal connections and does nothing else
C, by machine  tfmuster's sum, with several workers on each machine: they add up theirs first
C              tfmuster's sum over TCP
numpy          the same protocol with numpy, where there is no C compiler
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys

import all_reduce
from process_group import Group

from support.spaces import Machine, machines

#: The kind of all_reduce.py, and the kind of its process.
KINDS = {
    all_reduce.BASE: (all_reduce.BASE, "plain"),
    "C, by machine": ("C", "memory"),
    "C": ("C, over TCP", "plain"),
    "numpy": ("numpy", "plain"),
}
PORT = 24_000


def limit(machine: Machine, number: int, switch: str, megabits: int) -> None:
    """Limit what a machine sends and gets."""
    # Tokens of one millisecond, and at least those of a few packets of 64 KB.
    bucket = ["tbf", "rate", f"{megabits}mbit", "burst", str(max(262_144, megabits * 125)), "latency", "20ms"]
    for space, device in ((machine.name, "eth0"), (switch, f"p{number}")):
        command = ["ip", "netns", "exec", space, "tc", "qdisc", "replace", "dev", device, "root", *bucket]
        subprocess.run(command, check=True, timeout=10)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--each", type=int, default=1, metavar="WORKERS")
    parser.add_argument(
        "--megabits", type=lambda text: list(map(int, text.split(","))), default=[1000, 10_000]
    )
    parser.add_argument("--megabytes", type=float, default=100)
    parser.add_argument("--turns", type=int, default=5)
    given = parser.parse_args()
    size = round(given.megabytes * 250_000)
    kinds = {name: kind for name, kind in KINDS.items() if given.each > 1 or kind[1] == "plain"}
    workers = f"{given.hosts} hosts" + (f" with {given.each} workers each" if given.each > 1 else "")
    print(f"| {workers}, {given.megabytes:g} MB, ms (of the wire's rate) | {' | '.join(kinds)} |")
    print("|---|" + "---|" * len(kinds))
    with machines(given.hosts) as made:
        hosts = [machine for machine in made for _ in range(given.each)]
        groups = {}
        for shift, process in enumerate(sorted({process for _, process in kinds.values()})):
            ports = range(PORT + 100 * shift, PORT + 100 * shift + len(hosts))
            addresses = [f"{machine.address}:{port}" for machine, port in zip(hosts, ports, strict=True)]
            prefixes = [machine.prefix for machine in hosts]
            groups[process] = Group(["worker", process], len(hosts), addresses, prefixes=prefixes)
        for megabits in given.megabits:
            for number, machine in enumerate(made):
                limit(machine, number, made[0].switch, megabits)
            times: dict[str, list[float]] = {name: [] for name in kinds}
            for turn in range(given.turns + 1):  # the first one warms up
                for name, (kind, process) in kinds.items():
                    answers = groups[process].ask(kind, size, 1 if megabits <= 1000 else 3)
                    if turn:
                        each = [max(of) for of in zip(*(found for found, _ in answers), strict=True)]
                        times[name] += each
            wire = 2 * (given.hosts - 1) / given.hosts * 4 * size * 8 / (megabits * 1e6)
            cells = [statistics.median(times[name]) for name in kinds]
            texts = [f"{1000 * cell:.0f} ({wire / cell:.2f})" for cell in cells]
            print(f"| {megabits / 1000:g} Gbit/s | {' | '.join(texts)} |", flush=True)
        for group in groups.values():
            group.end()


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        all_reduce.worker(sys.argv[2])
    else:
        main()

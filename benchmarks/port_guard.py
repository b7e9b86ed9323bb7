"""What the guard of TensorFlow's port costs: in an all-reduce, and while strangers knock at the closed door.

Usage: port_guard.py [--jobs 7] [--repeats 25] [--rate 1000] [--gate]

Two jobs of two workers wait side by side, one guarded and one with TFMUSTER_OPEN_PORT=1, and measure an
all-reduce of 100 MB in turns. Two jobs that are alike differ by up to a tenth, for as long as they live, so
JOBS pairs are measured, and the median is taken. Then a process knocks RATE times a second at the guarded
port, or at a port of its own that is filtered alike, so that its own work is the same; in turns, too. Fails
if a ratio exceeds 1.02. With --gate, the guarded job can't attach filters.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import multiprocessing
import os
import socket
import statistics
import sys
import time
from typing import Any

from process_group import Group, answer_questions

from tfmuster.net.packet_filter import attach, program
from tfmuster.net.ports import free_ports

LIMIT = 1.02
MEGABYTES = 100
#: Variable that makes a worker do without filters.
GATE = "BENCHMARK_GATE"


def worker() -> None:
    """One worker of a job: answer with seconds."""
    import tensorflow as tf

    import tfmuster
    from tfmuster.rendezvous import port_guard

    if os.environ.get(GATE):
        port_guard.filters_work = lambda: "the kernel refuses socket filters"
    strategy = tfmuster.strategy("multi_worker_mirrored")

    def all_reduce(size: int) -> Any:
        value = tf.ones(size)

        @tf.function
        def step() -> tf.Tensor:
            return strategy.run(
                lambda: tf.reduce_sum(tf.distribute.get_replica_context().all_reduce("sum", value))
            )

        step()
        return step

    large, small = all_reduce(MEGABYTES * 250_000), all_reduce(25_000)

    def measure(what: str, count: int) -> Any:
        if what == "stages":
            return [guard.door.stage for guard in port_guard._guards]
        step = large if what == "large" else small
        begin = time.perf_counter()
        for _ in range(count):
            step()
        return (time.perf_counter() - begin) / count

    answer_questions(measure)


def knock(ports: Any, rate: float, knocks: Any) -> None:
    """Send connection requests to the port that ``ports`` holds at the moment, and count them."""
    waiting: list[socket.socket] = []
    due = time.perf_counter()
    while port := ports.value:
        stranger = socket.socket()
        stranger.setblocking(False)
        if stranger.connect_ex(("127.0.0.1", port)) == errno.EINPROGRESS:
            knocks.value += 1
        waiting.append(stranger)
        if len(waiting) > 50:
            waiting.pop(0).close()
        due += 1 / rate
        time.sleep(max(0.0, due - time.perf_counter()))


def paired(first: Any, second: Any, repeats: int) -> float:
    """The median of the ratios of two measurements, taken in turns and in changing order."""
    ratios = []
    for turn in range(repeats):
        pair = [first, second] if turn % 2 else [second, first]
        seconds = {each: each() for each in pair}
        ratios.append(seconds[first] / seconds[second])
    return statistics.median(ratios)


def pair_of_jobs(gate: bool, guarded_first: bool) -> tuple[Group, int, float]:
    """Measure all-reduces of two jobs. Return the guarded one, its first worker's port, and the ratio."""
    addresses = [f"127.0.0.1:{port}" for port in free_ports(4)]

    def guarded_job() -> Group:
        return Group(["worker"], 2, addresses[:2], **({GATE: "1"} if gate else {}))

    def open_job() -> Group:
        return Group(["worker"], 2, addresses[2:], TFMUSTER_OPEN_PORT="1")

    if guarded_first:
        guarded, opened = guarded_job(), open_job()
    else:
        opened, guarded = open_job(), guarded_job()
    for _ in range(60):
        if all(stages == ["closed"] for stages in guarded.ask("stages", 0)):
            break
        time.sleep(0.5)
    else:
        raise SystemExit("the door of the guarded job does not close")
    ratio = paired(lambda: max(guarded.ask("large", 4)), lambda: max(opened.ask("large", 4)), 5)
    opened.end()
    return guarded, int(addresses[0].rpartition(":")[2]), ratio


def main() -> int:
    """Measure, print a table, and return 1 if a ratio is over the limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=7)
    parser.add_argument("--repeats", type=int, default=25)
    parser.add_argument("--rate", type=float, default=1000)
    parser.add_argument("--gate", action="store_true", help="do without filters")
    given = parser.parse_args()
    guarded, target, ratio = pair_of_jobs(given.gate, guarded_first=True)
    ratios = [ratio]
    for turn in range(1, given.jobs):
        guarded.end()
        guarded, target, ratio = pair_of_jobs(given.gate, guarded_first=turn % 2 == 0)
        ratios.append(ratio)
    low, high = min(ratios), max(ratios)
    rows = [
        (
            f"all-reduce of {MEGABYTES} MB, guarded to open ({low:.2f} to {high:.2f})",
            statistics.median(ratios),
        )
    ]
    with socket.socket() as decoy:
        decoy.bind(("127.0.0.1", 0))
        decoy.listen(1)
        attach(decoy, program([]))
        aside = decoy.getsockname()[1]
        context = multiprocessing.get_context("spawn")
        port, knocks = context.Value("i", aside), context.Value("i", 0)
        stranger = context.Process(target=knock, args=(port, given.rate, knocks))
        stranger.start()
        begin = time.perf_counter()

        def steps_while_knocking_at(where: int) -> float:
            port.value = where
            time.sleep(0.2)
            return float(max(guarded.ask("small", 500)))

        ratio = paired(
            lambda: steps_while_knocking_at(target), lambda: steps_while_knocking_at(aside), given.repeats
        )
        rate = knocks.value / (time.perf_counter() - begin)
        port.value = 0
        stranger.join(10)
        rows.append((f"step, {rate:.0f} knocks a second at the closed door to elsewhere", ratio))
    guarded.end()
    print("| measure | ratio |\n|---|---|")
    for what, ratio in rows:
        print(f"| {what} | {ratio:.3f} |")
    return int(any(ratio > LIMIT for _, ratio in rows))


if __name__ == "__main__":
    if sys.argv[1:] == ["worker"]:
        with contextlib.suppress(KeyboardInterrupt):
            worker()
    else:
        raise SystemExit(main())

"""What the guard of TensorFlow's port costs: in an all-reduce, and while strangers knock at the closed door.

Usage: port_guard.py [--repeats 60] [--turns 300] [--rate 1000] [--gate]

Two workers measure an all-reduce of 100 MB in turns: guarded, and with the filter of the listening socket
detached and the guard's thread at rest. It is the same job, because two jobs that are alike differ by up to a
tenth for as long as they live. Then a process knocks RATE times a second at the guarded port, or at a port of
its own that is filtered alike, so that its own work is the same; in turns, too, which are short, because the
machine's speed changes from second to second. The range beside a ratio has its median with a probability of
95 % (by the binomial distribution of the ratios above and below it). Fails if a ratio exceeds
1.02. With --gate, the job can't attach filters, and does without.
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

from tfmuster.net.packet_filter import attach, detach, program
from tfmuster.net.ports import free_ports
from tfmuster.net.socket_table import borrowed

LIMIT = 1.02
MEGABYTES = 100
#: Variable that makes a worker do without filters.
GATE = "BENCHMARK_GATE"


def worker() -> None:
    """One worker of a job: answer with seconds."""
    import tensorflow as tf

    import tfmuster
    from tfmuster.rendezvous.task import port_guard

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
        if what == "guard":
            return [let(guard.door, work=bool(count)) for guard in port_guard._guards]
        step = large if what == "large" else small
        begin = time.perf_counter()
        for _ in range(count):
            step()
        return (time.perf_counter() - begin) / count

    answer_questions(measure)


def let(door: Any, *, work: bool) -> None:
    """Let a door do its work, or nothing: then the listening sockets have no filter either."""
    door._look = type(door)._look.__get__(door) if work else lambda: None
    time.sleep(0.1)
    if work:
        door._changed = True
        door._wake.set()
        time.sleep(0.1)
        return
    for inode, descriptor in door._listeners.items():
        with borrowed(descriptor, inode) as listener, contextlib.suppress(OSError):
            detach(listener)


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


def paired(first: Any, second: Any, repeats: int) -> tuple[float, float, float]:
    """The median of the ratios of two measurements, taken in turns and in changing order, and its range."""
    ratios = []
    for turn in range(repeats):
        pair = [first, second] if turn % 2 else [second, first]
        seconds = {each: each() for each in pair}
        ratios.append(seconds[first] / seconds[second])
    ratios.sort()
    away = 0.98 * repeats**0.5
    low, high = (ratios[min(max(int(repeats / 2 + each), 0), repeats - 1)] for each in (-away, away))
    return statistics.median(ratios), low, high


def main() -> int:
    """Measure, print a table, and return 1 if a ratio is over the limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=60)
    parser.add_argument("--turns", type=int, default=300)
    parser.add_argument("--rate", type=float, default=1000)
    parser.add_argument("--gate", action="store_true", help="do without filters")
    given = parser.parse_args()
    addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
    target = int(addresses[0].rpartition(":")[2])
    guarded = Group(["worker"], 2, addresses, **({GATE: "1"} if given.gate else {}))
    for _ in range(60):
        if all(stages == ["closed"] for stages in guarded.ask("stages", 0)):
            break
        time.sleep(0.5)
    else:
        raise SystemExit("the door of the guarded job does not close")

    def all_reduces(*, guarding: bool) -> float:
        guarded.ask("guard", int(guarding))
        return float(max(guarded.ask("large", 4)))

    ratio = paired(lambda: all_reduces(guarding=True), lambda: all_reduces(guarding=False), given.repeats)
    guarded.ask("guard", 1)
    rows = [(f"all-reduce of {MEGABYTES} MB, guarded to open", ratio)]
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
            time.sleep(0.05)
            return float(max(guarded.ask("small", 100)))

        ratio = paired(
            lambda: steps_while_knocking_at(target), lambda: steps_while_knocking_at(aside), given.turns
        )
        rate = knocks.value / (time.perf_counter() - begin)
        port.value = 0
        stranger.join(10)
        rows.append((f"step, {rate:.0f} knocks a second at the closed door to elsewhere", ratio))
    guarded.end()
    print("| measure | ratio | range |\n|---|---|---|")
    for what, (ratio, low, high) in rows:
        print(f"| {what} | {ratio:.3f} | {low:.3f} to {high:.3f} |")
    return int(any(ratio > LIMIT for _, (ratio, *_) in rows))


if __name__ == "__main__":
    if sys.argv[1:] == ["worker"]:
        with contextlib.suppress(KeyboardInterrupt):
            worker()
    else:
        raise SystemExit(main())

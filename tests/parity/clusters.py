"""Clusters of every shape: the edge cases, and as many more from a seeded generator."""

from __future__ import annotations

import random
from typing import NamedTuple

JOBS = ("chief", "worker", "ps", "evaluator")


class Case(NamedTuple):
    jobs: dict[str, list[str]]
    type: str
    index: int


EDGES = [
    Case({"worker": ["a:1"]}, "worker", 0),
    Case({"chief": ["a:1"]}, "chief", 0),
    Case({"worker": ["localhost:1", "localhost:65535"]}, "worker", 1),
    Case({"worker": ["127.0.0.1:1", "127.0.0.1:2"]}, "worker", 0),
    Case({"worker": ["[2001:db8::1]:2222", "[2001:db8::2]:2222"]}, "worker", 1),
    Case({"worker": ["[fe80::1]:1", "10.0.0.1:1", "h:1"]}, "worker", 2),
    Case({"worker": ["a" * 63 + ".example:2222"]}, "worker", 0),
    Case({"worker": [".".join(["a" * 49] * 5) + ":2222"]}, "worker", 0),
    Case({"worker": ["xn--bcher-kva.example:2222", "UPPER.example:2222"]}, "worker", 0),
    Case({"worker": ["1a.2b:3", "a-b.c-d:4"]}, "worker", 0),
    Case({"chief": ["c:1"], "worker": ["w:1"], "ps": ["p:1"], "evaluator": ["e:1"]}, "evaluator", 0),
    Case({"worker": ["w:1"], "ps": [f"p{i}:1" for i in range(12)]}, "ps", 11),
    Case({"worker": [f"host-{i}.example:2222" for i in range(1000)]}, "worker", 999),
]


def generated(count: int, seed: int) -> list[Case]:
    draw = random.Random(seed)

    def host(number: int) -> str:
        form = draw.randrange(4)
        if form == 0:
            return f"10.{draw.randrange(256)}.{number // 256}.{number % 256}"
        if form == 1:
            return f"[2001:db8:{draw.randrange(65536):x}::{number + 1:x}]"
        letters = "".join(draw.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=draw.randint(1, 20)))
        return f"h{letters}-{number}" + (".cluster.example" if form == 2 else "")

    cases = []
    for _ in range(count):
        sizes = {
            "chief": draw.randrange(2),
            "worker": draw.randint(1, 9),
            "ps": draw.choice((0, 0, 1, 2, 3)),
            "evaluator": draw.choice((0, 0, 0, 1)),
        }
        number = 0
        jobs: dict[str, list[str]] = {}
        for job in JOBS:
            for _ in range(sizes[job]):
                jobs.setdefault(job, []).append(f"{host(number)}:{draw.randint(1, 65535)}")
                number += 1
        job = draw.choice(list(jobs))
        cases.append(Case(jobs, job, draw.randrange(len(jobs[job]))))
    return cases


CASES = EDGES + generated(300, seed=20)

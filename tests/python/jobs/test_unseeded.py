"""Generators that a program makes without a seed draw what the job's seed, their place and order say."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from support.launching import environment

# A process that a server of the tests forks has its generators already.
pytestmark = pytest.mark.fresh

MAKERS = {
    "Random": "random.Random().random()",
    "its seed": "again(random.Random(3)).random()",
    "default_rng": "np.random.default_rng().random()",
    "RandomState": "np.random.RandomState().rand()",
    "SeedSequence": "np.random.SeedSequence().entropy",
    "bit generator": "np.random.Generator(np.random.PCG64()).random()",
    "NumPy's global generator": "(np.random.seed(), np.random.rand())[1]",
    "Python's global generator": "(random.seed(), random.random())[1]",
}
BEGIN = """
import json, os, random, secrets, sys, tempfile
import numpy as np
import pytest
from tfmuster.system.unseeded import seed_unseeded

def again(generator):
    generator.seed()
    return generator

for module in ('random', 'numpy.random'):
    seed_unseeded(int(sys.argv[1]), module)
"""


def drawn(tmp_path: Path, code: str, seed: int = 5) -> list[object]:
    """What a program prints, as JSON values."""
    script = tmp_path / "program.py"
    script.write_text(BEGIN + code)
    command = [sys.executable, script, str(seed)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=60, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_each_kind_draws_the_same_again_and_other_numbers_with_another_seed(tmp_path: Path) -> None:
    calls = ", ".join(f"{maker}, {maker}" for maker in MAKERS.values())
    code = f"print(json.dumps([{calls}]))"
    (first,), (second,), (other,) = (drawn(tmp_path, code, seed) for seed in (5, 5, 6))
    assert first == second
    assert len(set(first)) == len(first) == 2 * len(MAKERS)  # type: ignore[call-overload, arg-type]
    assert not set(first) & set(other)  # type: ignore[call-overload]


def test_what_one_worker_makes_alone_moves_nobody_elses(tmp_path: Path) -> None:
    code = """
def make():
    return random.Random().random()

if {chief}:
    [make() for _ in range(3)]
    np.random.default_rng()
for _ in range(2):
    print(make())
print(np.random.default_rng().random())
"""
    assert drawn(tmp_path, code.format(chief=True)) == drawn(tmp_path, code.format(chief=False))


def test_what_must_be_unique_stays_random(tmp_path: Path) -> None:
    code = """
names = tempfile.mkdtemp(), tempfile.NamedTemporaryFile().name, tempfile.mktemp()
os.rmdir(names[0])
print(json.dumps([*names, random.SystemRandom().random(), secrets.token_hex()]))
"""
    (first,), (second,) = drawn(tmp_path, code), drawn(tmp_path, code)
    assert not set(first) & set(second)  # type: ignore[call-overload]


def test_forked_children_differ_from_each_other_and_are_the_same_again(tmp_path: Path) -> None:
    code = """
import multiprocessing

def draw(_):
    return np.random.default_rng().random(), random.Random().random()

with multiprocessing.get_context("fork").Pool(3) as pool:
    drawn = pool.map(draw, range(9), chunksize=3)
for _ in range(2):
    if not (child := os.fork()):
        drawn = [draw(0)]
        print(json.dumps(drawn), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
print(json.dumps(sorted(drawn)))
"""
    *children, pool = drawn(tmp_path, code)
    *again, _ = drawn(tmp_path, code)
    assert children == again
    assert children[0] != children[1]
    # Which process takes which items is a matter of time.
    numbers = [number for pair in pool for number in pair]  # type: ignore[attr-defined]
    assert len(set(numbers)) == len(numbers)


def test_a_seed_that_is_given_means_what_it_always_means(tmp_path: Path) -> None:
    code = """
import pickle
generator = np.random.default_rng(seed=42)
print(json.dumps([
    generator.random(),
    isinstance(np.random.RandomState(), np.random.RandomState),
    pickle.loads(pickle.dumps(np.random.default_rng)) is np.random.default_rng,
    random.Random(7).random(),
]))
"""
    (values,) = drawn(tmp_path, code)
    assert values == [np.random.default_rng(42).random(), True, True, random.Random(7).random()]

"""Agree on the seed of the job's random number generators, and seed those that differ.

The launcher gives all workers a seed before their programs begin. Tasks that something else starts get one
here: the chief's ``TFMUSTER_SEED``, or a number that the chief draws. Generators whose states are equal on
all training tasks stay as they are, because the program has seeded them itself.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Mapping
from typing import Final

from ..cluster.spec import TRAINING, Task
from ..cluster.tf_config import seed_of_task
from ..environment import (
    HASH_SEED,
    INDEPENDENT_VARIABLE,
    LARGEST_SEED,
    SEED_VARIABLE,
    given_seed,
    is_on,
)
from ..net.channel import Message
from ..system.generators import (
    generator_states,
    job_seed,
    seed_generators,
    seed_tensorflow,
    tensorflow_seed,
)
from ..system.say import say
from ..system.user_code import runs_a_verb

#: Among the generators' states: the hash of a text.
_HASHES: Final = "hashes"


def offered_seed() -> Message:
    """Return what this task tells the chief: its ``TFMUSTER_SEED``, and the states of its generators.

    The seed of Python's hashes is one of them, which can't be set any more.
    """
    states = {**generator_states(), _HASHES: str(hash(_HASHES))}
    if (seed := tensorflow_seed()) is not None:
        states["TensorFlow"] = str(seed)
    return {"seed": given_seed(), "generators": states}


def agreed_seed(chief: int | None, states: Iterable[Mapping[str, str]]) -> Message:
    """Return what the chief tells all tasks: the seed, and the generators that are equal on all of them."""
    first, *others = states
    equal = [name for name, state in first.items() if all(other.get(name) == state for other in others)]
    return {"seed": secrets.randbelow(LARGEST_SEED + 1) if chief is None else chief, "seeded": equal}


def read_seed(value: object) -> int | None:
    """Return a seed from another process. Raises ValueError if it is not a seed."""
    if value is None or (type(value) is int and 0 <= value <= LARGEST_SEED):
        return value
    raise ValueError("not a seed")


def take_seed(agreed: Message, task: Task) -> None:
    """Seed the generators of this task, unless they have its seed already."""
    equal = agreed.get("seeded") or ()
    if _HASHES not in equal and _trains_users_program(task):
        say(
            "tfmuster: sets of texts have another order in each worker, because the seeds of Python's hashes "
            f"differ; before you start a worker's Python or R, set the same seed: export {HASH_SEED}=0"
        )
    job = read_seed(agreed.get("seed"))
    seed = None if job is None else seed_of_task(task, job, os.environ)
    if seed is None or job_seed() == seed:
        return
    here = given_seed()
    if here not in (None, job, seed):
        say(f"tfmuster: {SEED_VARIABLE} is {here} here and {job} on the chief; this task takes the chief's.")
    seed_generators(seed, leave=equal)
    if "TensorFlow" not in equal:
        seed_tensorflow(seed)


def _trains_users_program(task: Task) -> bool:
    """Return whether this task runs a program of the user, and trains one model with others."""
    together = task.type in TRAINING and not task.cluster.jobs.get("ps") and not is_on(INDEPENDENT_VARIABLE)
    return together and not runs_a_verb()

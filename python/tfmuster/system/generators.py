"""Seed the generators of a process: Python's, NumPy's, TensorFlow's, and R's if R embeds this Python.

Each worker of a job runs the user's program again. The workers draw the same numbers, and so choose the same
rows in the same order, only if their generators have the same seed.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import os
import sys
from collections.abc import Callable, Container

from ..environment import PROCESS_VARIABLE, SEED_VARIABLE
from .embedded_r import r_random_state, seed_r
from .unseeded import seed_unseeded

#: The seed that the tasks of this job have agreed on, if they have.
_agreed: list[int] = []


def job_seed() -> int | None:
    """Return the seed that the generators of this process got from its job; None if they got none."""
    if _agreed:
        return _agreed[0]
    seeded = os.environ.get(PROCESS_VARIABLE) == str(os.getpid())
    return int(os.environ[SEED_VARIABLE]) if seeded and os.environ.get(SEED_VARIABLE) else None


def generator_states() -> dict[str, str]:
    """Return a digest of the state of each generator that this process has. It draws no number."""
    states = {name: state() for name, (state, _) in _GENERATORS.items()}
    return {
        name: hashlib.sha256(repr(state).encode()).hexdigest()[:16]
        for name, state in states.items()
        if state is not None
    }


def seed_generators(seed: int, leave: Container[str] = ()) -> None:
    """Seed the generators of this process, without those that `leave` names."""
    _agreed[:] = [seed]
    # A generator that the program imports later would begin with a seed of its own.
    for module in ("random", "numpy.random"):
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
            seed_unseeded(seed, module)
    for name, (state, set_seed) in _GENERATORS.items():
        if name not in leave and (name == "R" or state() is not None):
            set_seed(seed)


def tensorflow_seed() -> int | None:
    """Return the global seed of TensorFlow; None if none is set, or TensorFlow is not imported."""
    # `keras_compat.seams` has its rows for what runs TensorFlow. This must not import it, nor TensorFlow.
    context = sys.modules.get("tensorflow.python.eager.context")
    seed = None if context is None else context.global_seed()
    return None if seed is None else int(seed)


def seed_tensorflow(seed: int) -> None:
    """Set the global seed of an imported TensorFlow, unless the program has set one."""
    if "tensorflow" in sys.modules and tensorflow_seed() is None:
        sys.modules["tensorflow"].random.set_seed(seed)


def _python_state() -> object:
    random = sys.modules.get("random")
    return None if random is None else random.getstate()


def _seed_python(seed: int) -> None:
    sys.modules["random"].seed(seed)


def _seed_numpy(seed: int) -> None:
    sys.modules["numpy.random"].seed(seed)


def _numpy_state() -> object:
    random = sys.modules.get("numpy.random")
    if random is None:
        return None
    kind, keys, *rest = random.get_state()
    return kind, keys.tobytes(), rest


#: For each generator, the function that returns its state, or None, and the one that seeds it.
_GENERATORS: dict[str, tuple[Callable[[], object], Callable[[int], None]]] = {
    "Python": (_python_state, _seed_python),
    "NumPy": (_numpy_state, _seed_numpy),
    "R": (r_random_state, seed_r),
}

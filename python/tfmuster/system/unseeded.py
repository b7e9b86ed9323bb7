"""Seed the generators of Python and NumPy that a program makes without a seed, from the seed of its job.

Every worker runs the program again. What it draws from ``random.Random()``, ``numpy.random.default_rng()``,
``RandomState()`` or a bit generator, itself or in a library, is then the same on all workers, and after a
restart. Such a seed depends on the job's seed, on the place of the call (the program's lines that led to it),
and on how often that place was reached before. So a generator that one worker makes for itself alone, such as
the chief, changes nobody's other generators.

What must be unique on a machine stays random: ``secrets``, ``uuid``, ``SystemRandom``, temporary names.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import sys
import warnings
from types import FrameType
from typing import Any, Final

from ..errors import TfmusterWarning
from .embedded_r import r_calls
from .register import Seam
from .user_code import is_of_the_user

#: Modules whose own generators make names that no other process may have.
_STAY_RANDOM: Final = "tempfile"

NUMPY_ENTROPY = Seam(
    "numpy.random.bit_generator:randbits",
    "generators of NumPy that a program makes without a seed draw the same numbers on all workers",
    takes=("k",),
    essential=False,
)
PYTHON_SEED = Seam(
    "random:Random.seed",
    "generators of Python that a program makes without a seed draw the same numbers on all workers",
    takes=("a", "version"),
    essential=False,
)
#: The method of Python's global generator, which was bound before its class got another one.
PYTHON_GLOBAL_SEED = Seam("random:seed", PYTHON_SEED.why, takes=("a", "version"), essential=False)


class _Entropy:
    """Numbers that depend on a key, on the place in the program, and on their order there."""

    def __init__(self, key: bytes) -> None:
        self.begin(key)

    def begin(self, key: bytes) -> None:
        """Begin with another key."""
        self.key = self._of_child = key
        self._counts: dict[str, itertools.count[int]] = {}

    def bits(self, count: int, caller: FrameType | None) -> int:
        """Return the next non-negative number of at most `count` bits for the place of a caller."""
        size = -(-count // 8)
        return int.from_bytes(self._next(size, caller), "big") >> (8 * size - count)

    def before_fork(self) -> None:
        """Draw a key for the child that begins now: its generators differ from those of its siblings."""
        self._of_child = self._next(16, sys._getframe(1))

    def after_fork(self) -> None:
        """Continue, in the child, with the key that the parent has drawn."""
        self.begin(self._of_child)

    def _next(self, size: int, caller: FrameType | None) -> bytes:
        place = _place(caller)
        number = next(self._counts.setdefault(place, itertools.count()))
        return hashlib.shake_256(b"%b\0%b\0%d" % (self.key, place.encode(), number)).digest(size)


def _place(frame: FrameType | None) -> str:
    """Return the innermost line, and the lines of the program, in Python and R, that have led to it."""
    lines: list[str] = []
    while frame is not None:
        code, module = frame.f_code, frame.f_globals.get("__name__")
        if not lines or is_of_the_user(frame):
            # A file may be in different folders on different machines.
            lines.append(f"{module}.{code.co_name}:{frame.f_lineno}")
        if module == "__main__" and code.co_name == "<module>":
            break
        frame = frame.f_back
    return "\n".join([*lines, r_calls()])


_current: list[_Entropy] = []


def seed_unseeded(job_seed: int, module: str) -> None:
    """Seed what ``random`` or ``numpy.random``, which is imported, makes without a seed from now on.

    It warns of a release of NumPy that has no place for it.
    """
    key = str(job_seed).encode()
    if not _current:
        entropy = _Entropy(key)
        _current.append(entropy)
        os.register_at_fork(before=entropy.before_fork, after_in_child=entropy.after_fork)
    elif _current[0].key != key:
        _current[0].begin(key)
    seam, wrap = (PYTHON_SEED, _wrap_python) if module == "random" else (NUMPY_ENTROPY, _wrap_numpy)
    if seam.replaced:
        return
    if (misfit := seam.misfit()) is None:
        wrap()
    else:
        warnings.warn(
            f"A feature of tfmuster is off ({seam.why}), because {seam} is not as expected: {misfit}.",
            TfmusterWarning,
            stacklevel=3,
        )


def _wrap_numpy() -> None:
    # It is called from compiled code. No class is replaced, so `isinstance` holds.
    @NUMPY_ENTROPY.wrap
    def randbits(k: int) -> int:
        return _current[0].bits(k, sys._getframe().f_back)


def _wrap_python() -> None:
    stock = PYTHON_SEED.get()

    @PYTHON_SEED.wrap
    def seed(self: Any, a: Any = None, version: int = 2) -> None:
        if a is None:
            caller = sys._getframe().f_back
            while caller is not None and caller.f_globals.get("__name__") == PYTHON_SEED.module:
                caller = caller.f_back
            if caller is None or caller.f_globals.get("__name__") != _STAY_RANDOM:
                a = _current[0].bits(64, caller)
        stock(self, a, version)

    PYTHON_GLOBAL_SEED.replace(PYTHON_GLOBAL_SEED.get().__self__.seed)

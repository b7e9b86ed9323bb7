"""Give TensorFlow the seed of the job, so that all workers shuffle and initialize alike.

Keras draws its seeds from Python's generator, which :mod:`tfmuster.system.generators` seeds.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from ..system.generators import job_seed, seed_generators
from .strategy_info import is_chief


def tensorflow_seed() -> int | None:
    """Return the global seed of TensorFlow; None if none is set, or TensorFlow is not imported."""
    context = sys.modules.get("tensorflow.python.eager.context")
    seed = None if context is None else context.global_seed()
    return None if seed is None else int(seed)


def seed_tensorflow(seed: int) -> None:
    """Set the global seed of an imported TensorFlow, unless the program has set one."""
    if "tensorflow" in sys.modules and tensorflow_seed() is None:
        import tensorflow as tf

        tf.random.set_seed(seed)


def agree_on_seed(strategy: Any) -> None:
    """Make the workers' global seeds of TensorFlow equal, unless the program has set one.

    Otherwise unseeded shuffling would differ between workers, and their parts of a global batch would
    overlap. The seed is the job's. A job without a rendezvous has none, so its chief draws one.
    """
    if tensorflow_seed() is not None:
        return
    seed = job_seed()
    if seed is None:
        import tensorflow as tf

        drawn = tf.cast(int.from_bytes(os.urandom(3), "big") if is_chief(strategy) else 0, tf.int32)
        seed = int(strategy.reduce("SUM", drawn, axis=None))
        seed_generators(seed)
    seed_tensorflow(seed)

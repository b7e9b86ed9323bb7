"""Give TensorFlow the seed of the job, so that all workers shuffle and initialize alike.

Keras draws its seeds from Python's generator, which :mod:`tfmuster.system.generators` seeds.
"""

from __future__ import annotations

import os
from typing import Any

from ...system.generators import job_seed, seed_generators, seed_tensorflow, tensorflow_seed
from ..process import is_chief


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

"""What a published program gets instead of its data and its hours of training; see :func:`begin`.

The driver puts this folder on ``PYTHONPATH`` and calls :func:`begin` in a program's first line, in one
process and on several workers alike. For tfmuster it is a part of the program.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
from typing import Any

from .records import finish

__all__ = ["begin", "download", "finish", "unpack"]


def begin() -> None:
    """Seed, replace data sets and downloads by small ones, shorten trainings, and record what they return."""
    os.environ["MPLBACKEND"] = "Agg"
    import keras
    import keras._tf_keras.keras  # tensorflow.keras
    import numpy as np

    from . import applications, data_sets, directories, downloads, pictures, records

    for module in (data_sets, directories, downloads, applications, pictures):
        module.replace()
    records.record_calls()
    stock_rng = np.random.default_rng
    np.random.default_rng = lambda seed=None: stock_rng(7 if seed is None else seed)
    sys.argv = sys.argv[:1]
    keras.utils.set_random_seed(7)
    random.seed(7)


def download(url: str, path: str = "") -> None:
    """Write the stand-in for the file at a URL, for a program's ``!wget`` or ``!curl``."""
    from . import downloads

    downloads.write(url, path)


def unpack(archive: str) -> None:
    """Unpack an archive into the folder of the program, for its ``!unzip`` or ``!tar``."""
    shutil.unpack_archive(archive, ".")


def replace_everywhere(stock: Any, ours: Any) -> None:
    """Replace a function of Keras under all of its names."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ("keras", "tensorflow"):
            for attribute, value in list(vars(module).items()):
                if value is stock:
                    setattr(module, attribute, ours)

"""Make Keras 3 train under ``MultiWorkerMirroredStrategy`` (MWMS).

Keras 3's TensorFlow trainer does not run on several workers: its symbolic build hands distributed values
to ``strategy.reduce``, and it reduces scalar logs along an axis that they do not have
(keras-team/keras#20585, #20601). This package replaces, under MWMS with a cluster only, the parts of the
trainer that know about distribution. The private names that it needs are rows of :mod:`.seams`.

Changes
-------
- **Input.** Every worker iterates an ordinary local ``tf.data`` pipeline. It yields the worker's rows of
  each global batch, sliced by position, and the number of rows of the whole batch. There is no distributed
  iterator, so the workers need not agree in every step on whether the data has ended, and a shuffled, seeded
  data set keeps the order that it has without a strategy.
- **Loss.** A worker's loss is its part of the loss of the whole global batch, so the parts and their
  gradients add up to those of one process, also for a partial last batch, masks and sample weights.
- **Random numbers.** Dropout and noise of a row depend on its place in the global batch.
- **Gradients.** They are summed before the optimizer clips them or tests them for infinity.
- **Own rows.** If each worker has data of its own (:mod:`.worker_data`), its batches are its rows of the
  global batches. The workers add up their rows a few batches at a time, and end together.
- **Logs and moving statistics.** One all-reduce of one packed vector per execution gives all workers the
  same logs and, for layers such as BatchNormalization, the same non-trainable weights. Another one reads all
  metrics at the end of an epoch.
- **Files.** Callbacks run on every worker, but only the chief writes files. Other workers read copies of
  their own. A backup is read on the chief and sent to the other workers.
"""

from __future__ import annotations

import os
import warnings

from ..errors import DependencyError, TfmusterWarning
from ..system.register import TESTED, check, restore
from . import seams as seams  # `check` looks at its rows
from .agreement.seeds import agree_on_seed
from .agreement.watching import watch_this_worker
from .process import PROCESS, is_chief, multi_worker, note_strategy, worker_of
from .runtime.own_thread import patch_run
from .runtime.starting import check_not_started, tensorflow_started
from .sums.gradients import (
    GRADIENT_DTYPES,
    bytes_per_step,
    checked_dtype,
    gradient_dtype,
    set_gradient_dtype,
    wanted_dtype,
)

__all__ = [
    "GRADIENT_DTYPES",
    "agree_on_seed",
    "bytes_per_step",
    "check_not_started",
    "check_releases",
    "checked_dtype",
    "gradient_dtype",
    "install",
    "install_on_jax",
    "is_chief",
    "multi_worker",
    "note_strategy",
    "set_gradient_dtype",
    "tensorflow_started",
    "wanted_dtype",
    "watch_this_worker",
    "worker_of",
]


def install() -> bool:
    """Patch the imported Keras 3 for several workers.

    You can call it more than once. Training in one process does not change.

    Returns
    -------
    bool
        True if Keras is patched; False for Keras 2, other backends, and releases that are too old.

    Raises
    ------
    DependencyError
        Keras or TensorFlow does not have what tfmuster replaces (reason ``seams``). Nothing is replaced.

    Warns
    -----
    TfmusterWarning
        This Keras is too old and stays unpatched, or is newer than the tested releases. Or a feature is off,
        because a release does not have what it needs.
    """
    if "tensorflow" in PROCESS.installed:
        return True
    if os.environ.get("TF_USE_LEGACY_KERAS", "").lower() in ("1", "true"):
        check_releases("tensorflow")
        patch_run()
        return False
    import keras

    version = tuple(int(part) for part in keras.__version__.split(".")[:2])
    if version[0] != 3 or keras.config.backend() != "tensorflow":
        return False
    oldest, newest = (".".join(map(str, tested)) for tested in TESTED["keras"])
    if version < TESTED["keras"][0]:
        warnings.warn(
            f"Keras {keras.__version__} is too old to be repaired for several workers: model.fit will fail "
            f"there. Install a newer one: pip install 'keras>={oldest}'",
            TfmusterWarning,
            stacklevel=2,
        )
        return False
    if version > TESTED["keras"][1]:
        warnings.warn(
            f"tfmuster repairs Keras for several workers; it was tested with Keras {oldest} to {newest}, "
            f"this is {keras.__version__}",
            TfmusterWarning,
            stacklevel=2,
        )
    check_releases("keras", "tensorflow")
    from .patches import patch_on_tensorflow

    patch_on_tensorflow()
    PROCESS.installed.add("tensorflow")
    return True


def install_on_jax() -> None:
    """Patch the imported Keras, whose backend is JAX, for several processes.

    You can call it more than once. Training in one process does not change.

    Raises
    ------
    DependencyError
        Keras or JAX does not have what tfmuster replaces (reason ``seams``). Nothing is replaced.
    """
    if "jax" in PROCESS.installed:
        return
    check_releases("keras", "jax")
    from .patches import patch_on_jax

    patch_on_jax()
    PROCESS.installed.add("jax")


def check_releases(*packages: str) -> None:
    """Look at all rows of the register of seams that belong to some packages.

    Raises
    ------
    DependencyError
        Essential rows do not fit (reason ``seams``). Nothing is replaced, and what was, is undone.

    Warns
    -----
    TfmusterWarning
        An optional row does not fit, so that its feature is off. Each row is named once.
    """
    try:
        misfits = check(packages)
    except DependencyError:
        # TensorFlow is imported, and prepared, before Keras is.
        restore()
        raise
    for row in (row for row in misfits if row not in PROCESS.features_off):
        PROCESS.features_off.append(row)
        warnings.warn(
            f"A feature of tfmuster is off ({row.why}), because {row} is not as expected: {row.misfit()}.",
            TfmusterWarning,
            stacklevel=3,
        )

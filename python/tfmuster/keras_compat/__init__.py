"""Make Keras 3 train under ``MultiWorkerMirroredStrategy`` (MWMS).

Keras 3's TensorFlow trainer does not run on several workers: its symbolic build hands distributed values
to ``strategy.reduce``, and it reduces scalar logs along an axis that they do not have
(keras-team/keras#20585, #20601). This package replaces, under MWMS with a cluster only, the parts of the
trainer that know about distribution. The private names that it needs are rows of :mod:`.seams`.

Every worker iterates a local ``tf.data`` pipeline of its rows of each global batch, sliced by position. Its
loss is its part of the loss of the whole batch, so the parts and their gradients add up to those of one
process, also for a partial last batch, masks and sample weights. Dropout and noise of a row depend on its
place in the batch, and gradients are summed before the optimizer clips them. One all-reduce of one packed
vector per execution gives all workers the same logs and moving statistics. Callbacks run on every worker, but
only the chief writes files.
"""

from __future__ import annotations

import warnings

from ..errors import DependencyError, TfmusterWarning
from ..system.register import TESTED, check, restore
from . import seams as seams  # `check` looks at its rows
from .process import PROCESS, uses_keras_2


def install() -> bool:
    """Patch the imported Keras 3 for several workers. Calling it again, or in one process, is harmless.

    Return whether Keras is patched: not Keras 2, other backends, and releases that are too old. Raises
    DependencyError (reason ``seams``), and replaces nothing, if Keras or TensorFlow lacks what tfmuster
    replaces. Warns of releases older or newer than the tested ones, and of a feature that is off.
    """
    if "tensorflow" in PROCESS.installed:
        return True
    if uses_keras_2():
        from .runtime.strategy_patches import patch_run

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
    """Patch the imported Keras, whose backend is JAX, for several processes, as `install` does."""
    if "jax" in PROCESS.installed:
        return
    check_releases("keras", "jax")
    from .patches import patch_on_jax

    patch_on_jax()
    PROCESS.installed.add("jax")


def check_releases(*packages: str) -> None:
    """Check all rows of the register of seams that belong to these packages.

    Raise a DependencyError for essential rows that do not fit, and undo what was replaced. Warn once of each
    optional row that does not fit, whose feature is off.
    """
    try:
        misfits = check(packages)
    except DependencyError:
        # TensorFlow is imported, and prepared, before Keras is.
        restore()
        raise
    for row in misfits:
        if row in PROCESS.features_off:
            continue
        PROCESS.features_off.append(row)
        warnings.warn(
            f"A feature of tfmuster is off ({row.why}), because {row} is not as expected: {row.misfit()}.",
            TfmusterWarning,
            stacklevel=3,
        )

"""Make Keras 3 train under ``MultiWorkerMirroredStrategy`` (MWMS).

Keras 3's TensorFlow trainer does not run on several workers: its symbolic build hands distributed values
to ``strategy.reduce``, and it reduces scalar logs along an axis that they do not have
(keras-team/keras#20585, #20601). This package replaces, under MWMS with a cluster only, the parts of the
trainer that know about distribution. It is the only place in tfmuster that touches private API.

What it does instead
--------------------
- **Input.** Every worker iterates an ordinary local ``tf.data`` pipeline that yields its own rows of each
  global batch, cut by position, together with the number of rows of the whole. No distributed iterator, so
  no agreement about the end of the data in every step, and a shuffled, seeded data set keeps the order
  that it has without a strategy.
- **Loss.** A worker's loss counts by its share of the global batch, so that the summed gradients are those
  of one process on the whole batch, also for a partial last batch.
- **Logs and moving statistics.** One all-reduce of one packed vector per execution gives all workers the
  same logs and, for layers such as BatchNormalization, the same non-trainable weights.
- **Files.** Callbacks run on every worker, but only the chief writes; a backup is restored on the chief and
  sent to the others.
"""

from __future__ import annotations

import os
import warnings

from .hook import install_import_hook
from .workers import agree_on_seed, is_chief, multi_worker, tensorflow_started, worker_of

__all__ = [
    "agree_on_seed",
    "apply",
    "install_import_hook",
    "is_chief",
    "multi_worker",
    "tensorflow_started",
    "worker_of",
]

#: Keras releases that the tests run with, oldest and newest (``make matrix``).
TESTED = ((3, 3), (3, 15))

_applied: list[str] = []


def apply() -> None:
    """Repair the imported Keras 3 for MWMS. Safe to call twice; does nothing to one-process training."""
    if _applied or os.environ.get("TF_USE_LEGACY_KERAS", "").lower() in ("1", "true"):
        return
    import keras

    version = tuple(int(part) for part in keras.__version__.split(".")[:2])
    if version[0] != 3:
        return
    if not TESTED[0] <= version <= TESTED[1]:
        warnings.warn(
            f"tfmuster repairs Keras for several workers; it was tested with Keras 3.{TESTED[0][1]} to "
            f"3.{TESTED[1][1]}, this is {keras.__version__}",
            stacklevel=2,
        )
    from keras.src import callbacks, models
    from keras.src.backend.tensorflow import trainer
    from keras.src.losses import loss

    from .files import patch_files
    from .trainer import patch_loss, patch_trainer

    patch_trainer(trainer)
    patch_loss(loss)
    patch_files(models.Model, callbacks)
    _applied.append(keras.__version__)

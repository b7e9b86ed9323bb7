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

from ..errors import TfmusterWarning
from .gradients import (
    GRADIENT_DTYPES,
    bytes_per_step,
    checked_dtype,
    gradient_dtype,
    set_gradient_dtype,
    wanted_dtype,
)
from .strategy_info import agree_on_seed, is_chief, multi_worker, tensorflow_started, worker_of

__all__ = [
    "GRADIENT_DTYPES",
    "agree_on_seed",
    "apply",
    "bytes_per_step",
    "checked_dtype",
    "gradient_dtype",
    "is_chief",
    "multi_worker",
    "set_gradient_dtype",
    "tensorflow_started",
    "wanted_dtype",
    "worker_of",
]

#: Keras releases that the tests run with, oldest and newest (``make matrix``). Before 3.10 its metrics are
#: not kept per replica, before 3.8 its losses are not scaled for replicas, and before 3.7 its steps do not
#: tell the end of the data: a repair would be a trainer of its own.
TESTED = ((3, 10), (3, 15))

_applied: list[str] = []


def apply() -> bool:
    """Repair the imported Keras 3 for MWMS. Safe to call twice; does nothing to one-process training.

    Returns
    -------
    bool
        Whether this Keras is repaired now; False for Keras 2, other backends, and releases that are too old.

    Warns
    -----
    TfmusterWarning
        This Keras is too old to be repaired, and stays as it is; or newer than what was tested.
    """
    if _applied:
        return True
    if os.environ.get("TF_USE_LEGACY_KERAS", "").lower() in ("1", "true"):
        return False
    import keras

    version = tuple(int(part) for part in keras.__version__.split(".")[:2])
    if version[0] != 3 or keras.config.backend() != "tensorflow":
        return False
    oldest, newest = (".".join(map(str, tested)) for tested in TESTED)
    if version < TESTED[0]:
        warnings.warn(
            f"Keras {keras.__version__} is too old to be repaired for several workers: model.fit will fail "
            f"there. Install a newer one: pip install 'keras>={oldest}'",
            TfmusterWarning,
            stacklevel=2,
        )
        return False
    if version > TESTED[1]:
        warnings.warn(
            f"tfmuster repairs Keras for several workers; it was tested with Keras {oldest} to {newest}, "
            f"this is {keras.__version__}",
            TfmusterWarning,
            stacklevel=2,
        )
    from keras.src import callbacks, models
    from keras.src.backend.tensorflow import optimizer, trainer
    from keras.src.losses import loss
    from keras.src.trainers.trainer import Trainer

    from .files import patch_files
    from .gradients import patch_gradients
    from .parameter_server import patch_fit
    from .predicting import patch_predict
    from .steps_per_execution import patch_choices
    from .trainer import patch_loss, patch_trainer

    patch_trainer(trainer)
    patch_predict(trainer.TensorFlowTrainer)
    patch_choices(trainer.TensorFlowTrainer, Trainer)
    patch_fit(trainer.TensorFlowTrainer)
    patch_gradients(optimizer.TFOptimizer)
    patch_loss(loss)
    patch_files(models.Model, callbacks)
    _applied.append(keras.__version__)
    return True

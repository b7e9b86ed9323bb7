"""Make Keras 3 train under ``MultiWorkerMirroredStrategy`` (MWMS).

Keras 3's TensorFlow trainer does not run on several workers: its symbolic build hands distributed values
to ``strategy.reduce``, and it reduces scalar logs along an axis that they do not have
(keras-team/keras#20585, #20601). This package replaces, under MWMS with a cluster only, the parts of the
trainer that know about distribution. It is the only place in tfmuster that touches private API.

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
- **Own rows.** If each worker has data of its own (:mod:`.own_rows`), its batches are its rows of the global
  batches. The workers add up their rows a few batches at a time, and end together.
- **Logs and moving statistics.** One all-reduce of one packed vector per execution gives all workers the
  same logs and, for layers such as BatchNormalization, the same non-trainable weights. Another one reads all
  metrics at the end of an epoch.
- **Files.** Callbacks run on every worker, but only the chief writes files. Other workers read copies of
  their own. A backup is read on the chief and sent to the other workers.
"""

from __future__ import annotations

import os
import warnings

from ..errors import TfmusterWarning
from . import seams
from .agreement import use_agreement
from .gradients import (
    GRADIENT_DTYPES,
    bytes_per_step,
    checked_dtype,
    gradient_dtype,
    set_gradient_dtype,
    wanted_dtype,
)
from .own_thread import patch_run
from .seeds import agree_on_seed
from .starting import check_not_started, tensorflow_started
from .strategy_info import is_chief, multi_worker, note_strategy, worker_of
from .watching import use_cause, watch_this_worker

__all__ = [
    "GRADIENT_DTYPES",
    "agree_on_seed",
    "apply",
    "bytes_per_step",
    "check_not_started",
    "checked_dtype",
    "gradient_dtype",
    "is_chief",
    "multi_worker",
    "note_strategy",
    "set_gradient_dtype",
    "tensorflow_started",
    "use_agreement",
    "use_cause",
    "wanted_dtype",
    "watch_this_worker",
    "worker_of",
]

#: Oldest and newest Keras release that the tests run with (``make matrix``). Before 3.10 Keras does not keep
#: metrics per replica, before 3.8 it does not scale losses for replicas, and before 3.7 its steps do not
#: report the end of the data: patching those releases would mean writing a new trainer.
TESTED = ((3, 10), (3, 15))

_applied: list[str] = []


def apply() -> bool:
    """Patch the imported Keras 3 for MWMS.

    You can call it more than once. Training in one process does not change.

    Returns
    -------
    bool
        True if Keras is patched; False for Keras 2, other backends, and releases that are too old.

    Warns
    -----
    TfmusterWarning
        This Keras is too old and stays unpatched, or is newer than the tested releases.
    """
    if _applied:
        return True
    if os.environ.get("TF_USE_LEGACY_KERAS", "").lower() in ("1", "true"):
        patch_run()
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
    patch_run()
    from keras.src.backend.tensorflow import trainer
    from keras.src.trainers.trainer import Trainer

    from .agreement import patch_calls
    from .batch_statistics import patch_equalization
    from .callbacks import patch_stops
    from .checkpoint_files import patch_checkpoints
    from .files import patch_files, patch_saved_models, patch_writers
    from .first_values import patch_broadcasts
    from .gradients import patch_gradients
    from .inlining import patch_functions
    from .instance_keys import patch_gathers
    from .loss_parts import patch_tapes
    from .loss_reduction import patch_loss
    from .metric_reads import patch_metric_reads
    from .parameter_server import patch_fit
    from .predicting import patch_predict
    from .random_rows import patch_first_values, patch_operations, patch_random
    from .scopes import patch_builds, patch_numbers, patch_scopes
    from .step_metrics import patch_metrics
    from .steps_per_execution import patch_choices
    from .trainer import patch_trainer

    patch_trainer(trainer)
    patch_predict(trainer.TensorFlowTrainer)
    patch_choices(trainer.TensorFlowTrainer, Trainer)
    patch_fit(trainer.TensorFlowTrainer)
    patch_scopes(trainer.TensorFlowTrainer)
    patch_builds()
    patch_numbers(seams.NUMBER_OF_VARIABLE.get())
    patch_calls(trainer.TensorFlowTrainer)
    patch_gradients()
    patch_gathers()
    patch_broadcasts()
    patch_loss()
    patch_tapes()
    patch_functions()
    patch_metrics()
    patch_metric_reads()
    patch_random()
    patch_operations()
    patch_first_values()
    patch_equalization()
    patch_files()
    patch_checkpoints()
    patch_stops()
    patch_writers()
    patch_saved_models()
    _applied.append(keras.__version__)
    return True

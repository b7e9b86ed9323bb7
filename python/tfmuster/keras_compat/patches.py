"""What replaces names of the imported Keras, in its order: :func:`tfmuster.keras_compat.install` calls it."""

from __future__ import annotations

from .calls import wrap_calls
from .data.pipelines import patch_shuffle
from .downloads import patch_downloads
from .losses.batch_statistics import patch_batch_statistics
from .losses.loss_parts import patch_tapes
from .losses.loss_reduction import patch_loss
from .losses.metrics import patch_metric_reads, patch_metrics
from .losses.random_rows import patch_random
from .on_jax import patch_agreement, patch_data_sets, patch_values, trains_together
from .runtime.scopes import patch_scopes
from .runtime.strategy_patches import patch_run
from .saving import patch_checkpoints, patch_files, patch_saved_models
from .steps.callbacks import patch_choices, patch_stops
from .steps.epochs import patch_epochs
from .steps.predicting import patch_predict
from .steps.tracing import patch_functions
from .sums.gradients import patch_gradients
from .sums.instance_keys import patch_broadcasts, patch_gathers


def patch_on_tensorflow() -> None:
    """Patch Keras 3 on TensorFlow for ``MultiWorkerMirroredStrategy`` and parameter servers."""
    from .steps.trainer import patch_trainer  # the only one that needs TensorFlow to be imported

    patch_run()
    patch_shuffle()
    patch_epochs()
    patch_trainer()
    patch_predict()
    patch_choices()
    patch_scopes()
    wrap_calls(strategies=True)
    patch_gradients()
    patch_gathers()
    patch_broadcasts()
    patch_loss()
    patch_tapes()
    patch_batch_statistics()
    patch_functions()
    patch_metrics()
    patch_metric_reads()
    patch_random()
    patch_files()
    patch_checkpoints()
    patch_stops()
    patch_saved_models()
    patch_downloads()


def patch_on_jax() -> None:
    """Patch Keras 3 on JAX for several processes.

    The chief writes Keras's files, a machine downloads a file once, each process takes its rows of a data
    set's batches, weights and predictions can be read, and calls of ``fit``, ``evaluate``, and ``predict``
    are noted and compared.
    """
    patch_files()
    patch_downloads()
    patch_data_sets()
    patch_values()
    patch_agreement()
    wrap_calls(trains_together, strategies=False)

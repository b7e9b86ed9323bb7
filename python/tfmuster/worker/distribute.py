"""Train a program without a strategy on all workers: ``tfmuster launch --distribute``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..cluster.tf_config import is_chief, workers_here
from ..environment import (
    DISTRIBUTE_VARIABLE,
    IS_CHIEF_VARIABLE,
    SCALE_BATCH_VARIABLE,
    full_workers,
    is_on,
)
from ..options.hints import Hint
from ..system.activity import ACTIVITY
from ..system.say import say
from ..words import language


def distributes() -> bool:
    """Return whether this process is one of several workers that train the program together as it is.

    The others may be lost.
    """
    workers = workers_here()
    return is_on(DISTRIBUTE_VARIABLE) and workers > 0 and full_workers(workers) > 1


def distribute(package: str) -> None:
    """Prepare the imported ``keras`` or ``tf_keras`` for the strategy that will be the default one."""
    from ..keras_compat.calls import scale_batches
    from ..keras_compat.runtime.distribute import require_tensorflow

    require_tensorflow(package)
    if is_on(SCALE_BATCH_VARIABLE):
        scale_batches(package)


def saving_callback(present: Sequence[Any]) -> list[Any]:
    """Return the callback that writes a checkpoint of such a program's ``fit`` on a shutdown signal.

    A ``fit`` that has a callback of its own for checkpoints gets none.
    """
    from ..training.checkpoint_files import has_place

    if not distributes() or not has_place() or ACTIVITY.place().get("call") != "fit":
        return []
    from keras.callbacks import BackupAndRestore

    from ..training.checkpoints import checkpoint_callback, has_checkpoints

    own = has_checkpoints(present) or any(isinstance(callback, BackupAndRestore) for callback in present)
    return [] if own else [checkpoint_callback(every=None)]


def say_distributed() -> None:
    """Say on the chief what the default strategy means for the program."""
    if is_chief():
        say(f"tfmuster: {_about(workers_here())}")


def _about(workers: int) -> str:
    times = f"is multiplied by {full_workers(workers)}"
    batch = times if is_on(SCALE_BATCH_VARIABLE) else f"is the batch of all {workers} workers"
    # The program still runs in one process, where the variable is not set.
    test = 'Sys.getenv("{}") != "0"' if language() == "r" else 'os.environ.get("{}") != "0"'
    distribute = Hint("distribute", True)
    return (
        f"{workers} workers train one model ({distribute}); batch_size {batch}. Keras's files are written by "
        f"the chief, other files by every worker: write them if {test.format(IS_CHIEF_VARIABLE)}"
    )

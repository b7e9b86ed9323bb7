"""Write checkpoints of a model with a Keras callback, and resume from them within an epoch."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..errors import CheckpointError
from ..keras_compat.process import require_tensorflow_backend
from ..system.tensorflow_import import import_tensorflow
from ..words import Value, Words
from .checkpoint_files import folder_of_job, place_of_job

if TYPE_CHECKING:
    import keras

#: Numbers of the callbacks of this program that get a folder of their own.
_numbers = itertools.count(1)


def checkpoint_callback(
    folder: str | os.PathLike[str] | None = None, *, every: int | str | None = "epoch", keep: int = 2
) -> keras.callbacks.Callback:
    """Make a Keras callback that writes checkpoints, and resumes from the newest one when ``fit`` starts.

    Pass it to ``fit`` on every worker. The chief writes and reads the files, and sends the content to the
    other workers. If the data has a seeded order, an interrupted and restarted run ends with the same weights
    as an uninterrupted one, bit for bit. The state of other callbacks, such as EarlyStopping, is not saved.

    While ``fit`` runs, SIGTERM or SIGUSR1 to any worker shuts all workers down, as ``tfmuster runs stop
    --save`` does. The chief writes one more checkpoint after the same step on all of them. Then they exit
    with code 128 + the signal. A second signal ends a worker at once.

    Parameters
    ----------
    folder : path, optional
        Folder of the checkpoints. Default: ``checkpoints`` in the run directory of the job, or in
        ``TFMUSTER_CHECKPOINT_DIR`` if that is set. Without a launcher, as under ``mpirun ... tfmuster
        worker``: ``checkpoints`` beside the script, from which the same program continues. Each ``fit`` needs
        a separate folder, so further callbacks of the same program use ``checkpoints-2`` and so on.
    every : int, "epoch" or None
        Write after this many steps, after each epoch, or only on a shutdown signal.
    keep : int
        Number of checkpoints to keep; at least 2, so that an earlier one exists if the newest is damaged.
        Those that can't be read do not count, and stay.

    Returns
    -------
    keras.callbacks.Callback

    Raises
    ------
    CheckpointError
        There is no folder and no job. Later, ``fit`` raises it if the disk is full, or if the checkpoint
        belongs to something else. The reason says to what: ``other-model``, ``other-name`` (of the job),
        ``other-data`` (or another batch size), or ``other-tensorflow`` (another version).
    StrategyError
        Keras has another backend than TensorFlow (reason ``backend``).
    """
    if every not in ("epoch", None) and (type(every) is not int or every < 1):
        raise CheckpointError(
            Words('every must be "epoch", {}, or a whole number of steps of at least 1.', Value(None)),
            found=str(Value(every)),
            path=None if folder is None else str(folder),
            reason="every",
        )
    require_tensorflow_backend(
        "checkpoint_callback()",
        "use keras.callbacks.BackupAndRestore, whose files the chief writes and reads",
    )
    path = folder_of_job(folder)
    if folder is None and (number := next(_numbers)) > 1:
        path = path.with_name(f"{path.name}-{number}")
    import_tensorflow()
    from ..rendezvous.task.agreement import prepare_keras

    prepare_keras()
    from .checkpoint_callback import Checkpoint

    return Checkpoint(path, every, max(2, keep))


def job_checkpoints(
    callbacks: Iterable[object], *, every: int | str | None = None
) -> list[keras.callbacks.Callback]:
    """Return the checkpoint callback of a job; none outside of one, or if `callbacks` have one."""
    if not place_of_job() or any(hasattr(callback, "saves_at") for callback in callbacks):
        return []
    return [checkpoint_callback(every=every)]

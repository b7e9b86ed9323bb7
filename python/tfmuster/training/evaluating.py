"""Evaluate the checkpoints of a job in an evaluator task while the other tasks train."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

from ..cluster.tf_config import current_task
from ..errors import StrategyError
from ..keras_compat.process import require_tensorflow_backend
from ..options.hints import Hint, Launch
from ..rendezvous.task.control_channel import ControlChannel
from ..rendezvous.task.join import join_cluster
from ..tracking.live.states import State, say_state
from ..tracking.record.layout import append_json, own_run_dir
from ..words import Code, Words
from . import checkpoint_files
from .checkpoint_contents import FIELDS, load_weights

if TYPE_CHECKING:
    import keras
    import numpy.typing as npt
    import tensorflow as tf

#: File of a job's evaluations, in its run directory.
EVALUATIONS = "evaluations.jsonl"
_LOOK_SECONDS = 0.5


def evaluate_checkpoints(
    model: keras.Model,
    data: tf.data.Dataset | tuple[npt.ArrayLike, ...],
    folder: str | os.PathLike[str] | None = None,
    *,
    verbose: bool = True,
) -> list[dict[str, float]]:
    """Evaluate every new checkpoint until the job ends. Call it in the evaluator task of a cluster.

    Only the newest checkpoint is evaluated, so some are skipped if evaluation takes longer than training. The
    last one is always evaluated if that takes at most 20 s, the time that ``tfmuster launch`` waits for it.

    Parameters
    ----------
    model : keras.Model
        Compiled model, the same as the one that :func:`tfmuster.checkpoint_callback` writes.
    data
        The same as ``validation_data`` of ``model.fit``: a pair (x, y), or a ``tf.data.Dataset`` that ends.
    folder : path, optional
        Folder of the checkpoints. Default: ``checkpoints`` in the run directory of the job.
    verbose : bool
        Whether to print a line per checkpoint.

    Returns
    -------
    list of dict of str to float
        For each evaluated checkpoint: ``step`` (updates of the weights), ``time`` (seconds since 1970),
        ``loss``, and the model's metrics. The file ``evaluations.jsonl`` in the run directory has the same.

    Raises
    ------
    StrategyError
        This process is not an evaluator, or Keras has another backend than TensorFlow.
    CheckpointError
        A checkpoint belongs to another model, or there is no folder.
    RendezvousError, WorkerError
        A task did not join in time; a task failed.
    """
    require_tensorflow_backend("evaluate_checkpoints()", "give validation_data to fit")
    task = current_task()
    if task is None or task.type != "evaluator":
        raise StrategyError(
            "Only an evaluator task can evaluate the checkpoints of a job.",
            found="no TF_CONFIG" if task is None else f"this is {task.name}",
            fix=Words(
                "{}; elsewhere call {}",
                Launch((Hint("evaluator", True),)),
                Code("model.evaluate", "evaluate(model, ...)"),
            ),
            strategy="evaluator",
            reason="task-type",
        )
    import keras

    path = checkpoint_files.folder_of_job(folder)
    control = join_cluster(task)
    say_state(State("evaluating", serves=True))
    evaluations: list[dict[str, float]] = []
    last_step = -1
    listed: list[int] = []
    over = False
    while not over:
        over = _over(control)
        now = checkpoint_files.steps(path)
        if now == listed:
            continue
        listed = now
        # The one of the highest step may be damaged.
        newest = checkpoint_files.newest(path, FIELDS)
        if newest is None or newest.step <= last_step:
            continue
        last_step = newest.step
        load_weights(model, newest.content, path)
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        values = model.evaluate(x, y, sample_weight=sample_weight, verbose=0, return_dict=True)
        evaluation = {"step": float(last_step), "time": time.time()}
        evaluation |= {name: float(value) for name, value in values.items()}
        evaluations.append(evaluation)
        _write(evaluation)
        if verbose:
            text = "  ".join(f"{name} {value:.4f}" for name, value in values.items())
            print(f"checkpoint after step {last_step}: test {text}", flush=True)
    return evaluations


def _over(control: ControlChannel) -> bool:
    # The job, and its control channel, may have ended while a checkpoint was evaluated.
    if control.joined:
        return control.wait_done(_LOOK_SECONDS)
    # Without a rendezvous there is no signal that the job has ended.
    time.sleep(_LOOK_SECONDS)
    return False


def _write(evaluation: dict[str, float]) -> None:
    if run_dir := own_run_dir():
        try:
            append_json(run_dir / EVALUATIONS, evaluation)
        except OSError as error:
            print(f"can't write the evaluation: {error}", file=sys.stderr)

"""An evaluator: it follows the checkpoints of a job and tests each, while the others train."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from ..cluster.tf_config import current_task
from ..environment import RUN_DIR_VARIABLE
from ..errors import StrategyError
from ..rendezvous.control_channel import ControlChannel
from ..rendezvous.join import join_cluster
from ..runs.layout import append_json
from ..runs.states import State, say_state
from . import checkpoint_files as checkpoints

#: Where the evaluations of a job are noted, in its run directory.
EVALUATIONS = "evaluations.jsonl"
_LOOK_SECONDS = 0.5


def evaluate_checkpoints(
    model: Any, data: Any, folder: str | os.PathLike[str] | None = None, *, verbose: bool = True
) -> list[dict[str, float]]:
    """Test every new checkpoint until the job is over: what the evaluator task of a cluster does.

    Only the newest is looked at, so where testing takes longer than training, some are passed over. The last
    one is tested in any case, if that takes no more than the 20 s that ``tfmuster launch`` waits for it.

    Parameters
    ----------
    model : keras.Model
        Compiled; the same model as is trained (:func:`tfmuster.checkpoint_callback` writes it).
    data
        As ``validation_data`` of ``model.fit``: a pair (x, y), or a ``tf.data.Dataset`` that ends.
    folder : path, optional
        Where the checkpoints are. Default: ``checkpoints`` in the run directory of the job.
    verbose : bool
        Whether to print a line for each.

    Returns
    -------
    list of dict of str to float
        For each checkpoint that was tested: ``step`` (updates of the weights), ``time`` (seconds since 1970),
        ``loss`` and the model's metrics; the same as the lines of ``evaluations.jsonl`` in the run directory.

    Raises
    ------
    StrategyError
        This process is no evaluator.
    CheckpointError
        A checkpoint is of another model, or there is no folder.
    RendezvousError, WorkerError
        Not everyone came in time; a task failed.
    """
    task = current_task()
    if task is None or task.type != "evaluator":
        raise StrategyError(
            "Only an evaluator follows the checkpoints until its job is over.",
            found="no TF_CONFIG" if task is None else f"this is {task.name}",
            fix="tfmuster launch --evaluator ...; elsewhere call model.evaluate",
            strategy="evaluator",
            reason="task-type",
        )
    where = checkpoints.folder_of_job(folder)
    control = join_cluster(task)
    say_state(State("evaluating", serves=True))
    found: list[dict[str, float]] = []
    seen = -1
    over = False
    while not over:
        over = _over(control)
        step = checkpoints.newest_step(where)
        if step is None or step <= seen:
            continue
        content = checkpoints.newest(where)
        if content is None:
            continue
        seen = step
        values = _evaluate(model, data, content, where)
        found.append({"step": float(step), "time": time.time(), **values})
        _note(found[-1])
        if verbose:
            text = "  ".join(f"{name} {value:.4f}" for name, value in values.items())
            print(f"checkpoint after step {step}: test {text}", flush=True)
    return found


def _over(control: ControlChannel) -> bool:
    # The job may have come to its end, and its line with it, while a checkpoint was tested.
    if control.joined:
        return control.wait_done(_LOOK_SECONDS)
    # Without a rendezvous nobody says when the job is over.
    time.sleep(_LOOK_SECONDS)
    return False


def _evaluate(model: Any, data: Any, content: bytes, where: Path) -> dict[str, float]:
    import keras

    from .checkpoints import load_weights

    load_weights(model, content, where)
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    values = model.evaluate(x, y, sample_weight=sample_weight, verbose=0, return_dict=True)
    return {name: float(value) for name, value in values.items()}


def _note(line: dict[str, float]) -> None:
    if folder := os.environ.get(RUN_DIR_VARIABLE):
        try:
            append_json(Path(folder) / EVALUATIONS, line)
        except OSError as error:
            print(f"can't write the evaluation: {error}", file=sys.stderr)

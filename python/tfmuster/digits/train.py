"""Train the MNIST models of :mod:`tfmuster.digits.models` in one process or on several workers.

Every worker calls :func:`train_mnist` with the same arguments. Under a multi-worker strategy, each worker
computes on its own rows of each global batch; only the chief prints and writes files.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..environment import MAX_RESTARTS_VARIABLE
from ..errors import ModelError, StrategyError
from ..keras_compat.process import require_tensorflow_backend
from ..system.tensorflow_import import require_tensorflow
from ..tracking.live.states import State, say_state
from ..training.learning_rates import scaled_learning_rate
from ..words import Argument
from ..worker.progress import progress_callback
from .models import mnist_model
from .plan import Fitting, Plan, make_plan, pipelines
from .recipes import recipe as settings
from .reporting import TrainingResult, reporters, say_plan, say_result, say_shard, say_traffic

if TYPE_CHECKING:
    from .datasets import Digits


def train_mnist(
    model: str = "cnn",
    *,
    dataset: str | Path | Digits | None = None,
    strategy: Any = None,
    batch_size: int | None = None,
    epochs: int | None = None,
    steps_per_epoch: int | None = None,
    validation_split: float | None = None,
    shuffle: bool | None = None,
    optimizer: Any = None,
    learning_rate: float | None = None,
    scale_lr: bool = False,
    gradient_dtype: str | None = None,
    dropout: bool | tuple[float, float] = True,
    initial_weights: str | None = None,
    gradient_accumulation_steps: int | None = None,
    steps_per_execution: int | None = None,
    seed: int = 0,
    save: str | os.PathLike[str] | None = None,
    history: str | os.PathLike[str] | None = None,
    checkpoint_every: int | str | None = None,
    updates: str | None = None,
    replicas_to_aggregate: int | None = None,
    min_shard_bytes: int | None = None,
    callbacks: Sequence[Any] = (),
    verbose: int | bool = True,
    recipe: str = "quick",
) -> TrainingResult:
    """Train one of the four models on MNIST, or on a data set of the same format.

    Parameters
    ----------
    model : {"cnn", "deep_cnn", "mlp", "softmax"}
        Name of the model.
    dataset : str, path or Digits, optional
        ``"mnist"`` (default): MNIST, from ``TFMUSTER_MNIST``, Keras's cache, or a download; ``"synthetic"``:
        generated digits; otherwise the path of an ``.npz`` file or a folder of IDX files.
    strategy : str or tf.distribute.Strategy, optional
        A name for :func:`tfmuster.strategy`, or a strategy. Default: if TF_CONFIG, MPI, Slurm, or Kubernetes
        define a cluster, ``parameter_server`` if it has parameter servers, else ``multi_worker_mirrored``;
        without a cluster, no strategy.
    batch_size : int, optional
        Images per replica and step. The global batch is this times the number of replicas.
    epochs : int, optional
        Number of epochs, each of ``steps_per_epoch`` steps.
    steps_per_epoch : int, optional
        Global batches per epoch; 0 for the whole training set.
    validation_split : float, optional
        Share of the training set, from its end, that is used for validation.
    shuffle : bool, optional
        Whether each epoch has a new random order.
    optimizer, learning_rate, dropout, initial_weights, gradient_accumulation_steps, steps_per_execution
        See :func:`tfmuster.mnist_model`.
    scale_lr : bool
        Multiply the learning rate by the number of batches in a step (the linear scaling rule). The warm-up
        takes the first five epochs or the first tenth of all steps, whichever is shorter; see
        :func:`~tfmuster.training.learning_rates.scaled_learning_rate`. With another optimizer than the
        model's default, ``learning_rate`` is required.
    gradient_dtype : {"float32", "bfloat16", "float16"}, optional
        Data type of the gradients that workers send each other; see :func:`tfmuster.strategy`. Only with the
        name of a strategy.
    seed : int
        Seed of initial weights, dropout, and the order of the images. Two trainings with the same seed,
        arguments, and number of workers end with the same weights.
    save : path, optional
        Path of the saved model (chief only): ``.keras``, ``.h5``, or a folder for a SavedModel.
    history : path, optional
        Path of a JSON file for the result (chief only).
    checkpoint_every : int or "epoch", optional
        Write checkpoints to the run directory after this many steps or after each epoch, and resume from the
        newest one: see :func:`tfmuster.checkpoint_callback`. Default: each epoch in a job that can restart or
        has an evaluator; in other jobs, only on a shutdown signal.
    updates, replicas_to_aggregate
        With parameter servers, see :func:`tfmuster.ps_fit`. Default: ``async``, where a step is one worker's
        batch; otherwise a step is one batch of each worker.
    min_shard_bytes : int, optional
        With parameter servers, see :func:`tfmuster.strategy`.
    callbacks : sequence of keras.callbacks.Callback
        Run on every worker; with parameter servers, on the coordinator.
    verbose : int or bool
        0 or False: print nothing; 1 or True: the chief prints one line per epoch; 2: every worker also prints
        which rows it reads.
    recipe : {"quick", "document"}
        The defaults of arguments that are left out. ``quick`` trains in well under a minute to a result worth
        showing; ``document`` has the numbers of the model's source document
        (:mod:`tfmuster.digits.recipes`).

    Returns
    -------
    TrainingResult

    Raises
    ------
    DataError, ModelError, StrategyError, ClusterError, DependencyError
        An argument, the data, the cluster, or the installation is invalid. Raised before training starts.
    """
    defaults = settings(model, recipe)
    _check_numbers(batch_size=batch_size, epochs=epochs, steps_per_epoch=steps_per_epoch)
    require_tensorflow()
    require_tensorflow_backend("train_mnist()", "train a model of your own under a keras.distribution")
    from . import datasets

    evaluating = _is_evaluator()
    chosen = "default" if evaluating else _chosen(strategy)
    if chosen == "parameter_server":
        # This call does not return on tasks that only serve, and they need no data.
        chosen = _make(chosen, min_shard_bytes=min_shard_bytes)
    digits = datasets.load(dataset)
    made = _make(
        chosen, min_shard_bytes=None if evaluating else min_shard_bytes, gradient_dtype=gradient_dtype
    )
    fitting = Fitting.of(made, *(None, None) if evaluating else (updates, replicas_to_aggregate))
    from ..keras_compat.process import is_chief

    chief = is_chief(made)
    if chief and not evaluating:
        _check_paths(save, history)
    plan = make_plan(
        defaults,
        len(digits.x_train),
        fitting.batches_in_step,
        batch_size=batch_size,
        epochs=epochs,
        steps_per_epoch=steps_per_epoch,
        validation_split=validation_split,
        seed=seed,
    )
    if shuffle is None:
        shuffle = defaults.shuffle
    rate: Any = learning_rate
    if scale_lr:
        own = optimizer is None or optimizer == defaults.optimizer
        rate = defaults.learning_rate if own and rate is None else rate
        warmup = min(5 * plan.steps_per_epoch, plan.epochs * plan.steps_per_epoch // 10)
        rate = scaled_learning_rate(rate, fitting.batches_in_step, warmup)
    if verbose and chief and not evaluating:
        say_plan(model, recipe, digits, plan, fitting.describe())
    if verbose and int(verbose) > 1:
        say_shard(made, len(digits.x_train) - plan.validation_rows, plan)

    import tensorflow as tf

    tf.keras.utils.set_random_seed(seed)
    with fitting.scope():
        network = mnist_model(
            model,
            recipe=recipe,
            optimizer=optimizer,
            learning_rate=rate,
            dropout=dropout,
            seed=seed,
            initial_weights=initial_weights,
            gradient_accumulation_steps=gradient_accumulation_steps,
            steps_per_execution=steps_per_execution,
        )
    if verbose and chief and not evaluating:
        say_traffic(network, made)
    data = pipelines(digits, plan, made, shuffle=shuffle, one_hot=defaults.one_hot)
    if evaluating:
        return _evaluated(network, data[-1], plan, digits, verbose=bool(verbose))
    every = [
        *callbacks,
        # Report an epoch before its checkpoint: a run that resumes from it does not report it again.
        *reporters(plan, enabled=chief, printing=bool(verbose)),
        *progress_callback(plan.global_batch_size),
        *_checkpoints(checkpoint_every, callbacks),
    ]
    result = _trained(network, data, fitting, plan=plan, digits=digits, callbacks=every, save=save)
    if chief:
        if history is not None:
            _write_json(Path(history), result.to_dict())
        if verbose:
            say_result(result)
    return result


def _trained(
    network: Any,
    data: tuple[Any, Any, Any],
    fitting: Fitting,
    *,
    plan: Plan,
    digits: Digits,
    callbacks: Sequence[Any],
    save: str | os.PathLike[str] | None,
) -> TrainingResult:
    """Train and test a model, and save it; `data` is for training, validation, and the test."""
    from ..models.saving import save_model

    train, validation, test = data
    begin = time.perf_counter()
    fitted = fitting.fit(
        network,
        train,
        epochs=plan.epochs,
        steps_per_epoch=plan.steps_per_epoch,
        validation_data=validation,
        callbacks=callbacks,
        verbose=0,
    )
    seconds = time.perf_counter() - begin
    say_state(State("testing"))
    loss, accuracy = network.evaluate(test, verbose=0)
    saved = save_model(network, os.fspath(save), strategy=fitting.strategy) if save is not None else None
    return TrainingResult(
        history={name: [float(v) for v in values] for name, values in fitted.history.items()},
        test_accuracy=float(accuracy),
        test_loss=float(loss),
        model=network,
        model_path=str(saved) if saved is not None else None,
        dataset=digits.describe(),
        batch_size=plan.batch_size,
        global_batch_size=plan.global_batch_size,
        replicas=fitting.replicas,
        seconds=seconds,
    )


def _check_paths(save: str | os.PathLike[str] | None, history: str | os.PathLike[str] | None) -> None:
    """Raise a ModelError now, and not after the training, if a result can't be written."""
    from ..models.saving import check_target

    if save is not None:
        check_target(os.fspath(save))
    if history is not None:
        check_target(os.fspath(history), what="history")


def _is_evaluator() -> bool:
    from ..cluster.tf_config import current_task

    task = current_task()
    return task is not None and task.type == "evaluator"


def _evaluated(network: Any, test: Any, plan: Plan, digits: Digits, *, verbose: bool) -> TrainingResult:
    """Run the evaluator, and return a result whose history has one entry per checkpoint."""
    from ..training.evaluating import evaluate_checkpoints

    begin = time.perf_counter()
    found = evaluate_checkpoints(network, test, verbose=verbose)
    history = {name: [each[name] for each in found] for name in (found[0] if found else ())}
    last = found[-1] if found else {"loss": math.nan, "accuracy": math.nan}
    return TrainingResult(
        history=history,
        test_accuracy=last["accuracy"],
        test_loss=last["loss"],
        model=network,
        model_path=None,
        dataset=digits.describe(),
        batch_size=plan.batch_size,
        global_batch_size=plan.global_batch_size,
        replicas=1,
        seconds=time.perf_counter() - begin,
    )


def _check_numbers(**numbers: Any) -> None:
    for name, value in numbers.items():
        least = 0 if name == "steps_per_epoch" else 1
        whole = isinstance(value, int) and not isinstance(value, bool)
        if value is not None and (not whole or value < least):
            raise ModelError(
                f"{name} must be a whole number of at least {least}.",
                found=str(Argument(name, value)),
                reason=name.replace("_", "-"),
            )


def _checkpoints(every: int | str | None, present: Sequence[Any]) -> list[Any]:
    """Return the checkpoint callback if it was asked for, and in a job unless the caller has passed one."""
    from ..cluster.tf_config import current_task
    from ..training.checkpoint_files import has_place
    from ..training.checkpoints import checkpoint_callback, has_checkpoints

    task = current_task()
    if every is None and (has_checkpoints(present) or not has_place()):
        return []
    needed = int(os.environ.get(MAX_RESTARTS_VARIABLE, "0")) > 0
    if every is None and (needed or (task is not None and task.cluster.jobs.get("evaluator"))):
        every = "epoch"
    # Without a number of steps, it writes only on a shutdown signal.
    return [checkpoint_callback(every=every)]


def _chosen(strategy: Any) -> Any:
    """Return a strategy, or the name of one."""
    from ..cluster.resolvers import join_engine

    if strategy is not None:
        return strategy
    task = join_engine()
    if task is None:
        return "default"
    return "parameter_server" if task.cluster.jobs.get("ps") else "multi_worker_mirrored"


def _make(strategy: Any, **arguments: Any) -> Any:
    from ..strategies import by_name as strategies

    if isinstance(strategy, str):
        return strategies.strategy(strategy, **arguments)
    if arguments.get("gradient_dtype") is not None:
        raise StrategyError(
            "gradient_dtype must be set when the strategy is created.",
            fix="set it in the call of strategy(), or pass the strategy's name",
            strategy=type(strategy).__name__,
            reason="unused-argument",
        )
    return strategy


def _write_json(path: Path, document: Mapping[str, Any]) -> None:
    import orjson

    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n")

"""Train the MNIST models of :mod:`tfmuster.digits.models` in one process or on several workers.

Every worker calls :func:`train_mnist` with the same arguments. Under a multi-worker strategy, each worker
computes on its own rows of each global batch; only the chief prints and writes files.
"""

from __future__ import annotations

import functools
import math
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..cluster.resolvers import join_engine
from ..cluster.tf_config import current_task
from ..environment import MAX_RESTARTS_VARIABLE
from ..errors import ModelError, StrategyError
from ..keras_compat.process import is_chief, require_tensorflow_backend
from ..models.saving import check_target, save_model
from ..strategies import by_name
from ..system.tensorflow_import import require_tensorflow
from ..tracking.live.states import State, say_state
from ..tracking.record.layout import write_json
from ..training.checkpoints import checkpoint_callback, job_checkpoints
from ..training.evaluating import evaluate_checkpoints
from ..training.learning_rates import scaled_learning_rate
from ..words import Argument
from ..worker.progress import progress_callback
from .datasets import Digits, load
from .models import mnist_model
from .plan import Fitting, Plan, make_plan, pipelines
from .recipes import Recipe
from .recipes import recipe as recipe_of
from .reporting import TrainingResult, epoch_reporter, say_plan, say_result, say_shard, say_traffic

if TYPE_CHECKING:
    import keras
    import tensorflow as tf


def train_mnist(
    model: str = "cnn",
    *,
    dataset: str | Path | Digits | None = None,
    strategy: str | tf.distribute.Strategy | None = None,
    batch_size: int | None = None,
    epochs: int | None = None,
    steps_per_epoch: int | None = None,
    validation_split: float | None = None,
    shuffle: bool | None = None,
    optimizer: str | keras.optimizers.Optimizer | None = None,
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
    callbacks: Sequence[keras.callbacks.Callback] = (),
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
    return _Training(**locals()).run()


@dataclass(frozen=True)
class _Training:
    """One call of `train_mnist`; the fields are its arguments."""

    model: str
    dataset: str | Path | Digits | None
    strategy: str | tf.distribute.Strategy | None
    batch_size: int | None
    epochs: int | None
    steps_per_epoch: int | None
    validation_split: float | None
    shuffle: bool | None
    optimizer: str | keras.optimizers.Optimizer | None
    learning_rate: float | None
    scale_lr: bool
    gradient_dtype: str | None
    dropout: bool | tuple[float, float]
    initial_weights: str | None
    gradient_accumulation_steps: int | None
    steps_per_execution: int | None
    seed: int
    save: str | os.PathLike[str] | None
    history: str | os.PathLike[str] | None
    checkpoint_every: int | str | None
    updates: str | None
    replicas_to_aggregate: int | None
    min_shard_bytes: int | None
    callbacks: Sequence[keras.callbacks.Callback]
    verbose: int | bool
    recipe: str

    def run(self) -> TrainingResult:
        """Train and test, or evaluate the checkpoints of a job if this process is its evaluator."""
        settings = self._settings
        for name, least in (("batch_size", 1), ("epochs", 1), ("steps_per_epoch", 0)):
            value = getattr(settings, name)
            if type(value) is not int or value < least:
                raise ModelError(
                    f"{name} must be a whole number of at least {least}.",
                    found=str(Argument(name, value)),
                    reason=name.replace("_", "-"),
                )
        require_tensorflow()
        require_tensorflow_backend("train_mnist()", "train a model of your own under a keras.distribution")
        task = current_task()
        if task is not None and task.type == "evaluator":
            return self._evaluated()
        return self._trained()

    def _trained(self) -> TrainingResult:
        strategy = self._strategy_or_name()
        if strategy == "parameter_server":
            # This call does not return on tasks that only serve, and they need no data.
            strategy = self._created(strategy)
        digits = load(self.dataset)
        fitting = Fitting.for_strategy(self._created(strategy), self.updates, self.replicas_to_aggregate)
        chief = is_chief(fitting.strategy)
        if chief:
            # Raise an error now, and not after the training, if a result can't be written.
            if self.save is not None:
                check_target(os.fspath(self.save))
            if self.history is not None:
                check_target(os.fspath(self.history), what="history")
        plan = self._plan(digits, fitting)
        printing = chief and bool(self.verbose)
        if printing:
            say_plan(self.model, self.recipe, digits, plan, fitting.describe())
        if int(self.verbose) > 1:
            say_shard(fitting.strategy, len(digits.x_train) - plan.validation_rows, plan)
        network = self._network(fitting, plan)
        if printing:
            say_traffic(network, fitting.strategy)
        train, validation, test = pipelines(digits, plan, fitting.strategy)
        begin = time.perf_counter()
        fitted = fitting.fit(
            network,
            train,
            epochs=plan.epochs,
            steps_per_epoch=plan.steps_per_epoch,
            validation_data=validation,
            callbacks=[
                *self.callbacks,
                # Report an epoch before its checkpoint: a run that resumes from it does not report it again.
                *([epoch_reporter(plan, printing=bool(self.verbose))] if chief else []),
                *progress_callback(plan.global_batch_size),
                *self._checkpoints(),
            ],
            verbose=0,
        )
        seconds = time.perf_counter() - begin
        say_state(State("testing"))
        loss, accuracy = network.evaluate(test, verbose=0)
        saved = None
        if self.save is not None:
            saved = save_model(network, os.fspath(self.save), strategy=fitting.strategy)
        result = TrainingResult(
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
        if chief and self.history is not None:
            path = Path(self.history)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(path, result.to_dict())
        if printing:
            say_result(result)
        return result

    def _evaluated(self) -> TrainingResult:
        """Run the evaluator, and return a result whose history has one entry per checkpoint."""
        digits = load(self.dataset)
        fitting = Fitting.for_strategy(by_name.strategy("default"), None, None)
        plan = self._plan(digits, fitting)
        network = self._network(fitting, plan)
        test = pipelines(digits, plan, fitting.strategy)[-1]
        begin = time.perf_counter()
        evaluations = evaluate_checkpoints(network, test, verbose=bool(self.verbose))
        last = evaluations[-1] if evaluations else {"loss": math.nan, "accuracy": math.nan}
        return TrainingResult(
            history={name: [line[name] for line in evaluations] for name in (last if evaluations else ())},
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

    def _strategy_or_name(self) -> str | tf.distribute.Strategy:
        if self.strategy is not None:
            return self.strategy
        task = join_engine()
        if task is None:
            return "default"
        return "parameter_server" if task.cluster.jobs.get("ps") else "multi_worker_mirrored"

    def _created(self, strategy: str | tf.distribute.Strategy) -> tf.distribute.Strategy:
        if isinstance(strategy, str):
            return by_name.strategy(
                strategy, min_shard_bytes=self.min_shard_bytes, gradient_dtype=self.gradient_dtype
            )
        if self.gradient_dtype is not None:
            raise StrategyError(
                "gradient_dtype must be set when the strategy is created.",
                fix="set it in the call of strategy(), or pass the strategy's name",
                strategy=type(strategy).__name__,
                reason="unused-argument",
            )
        return strategy

    @functools.cached_property
    def _settings(self) -> Recipe:
        """The settings of the recipe, with the arguments in their place."""
        names = ("batch_size", "epochs", "steps_per_epoch", "validation_split", "shuffle")
        arguments = {name: value for name in names if (value := getattr(self, name)) is not None}
        return replace(recipe_of(self.model, self.recipe), **arguments)

    def _plan(self, digits: Digits, fitting: Fitting) -> Plan:
        return make_plan(self._settings, len(digits.x_train), fitting.batches_in_step, self.seed)

    def _network(self, fitting: Fitting, plan: Plan) -> keras.Model:
        import tensorflow as tf

        rate: Any = self.learning_rate
        if self.scale_lr:
            if rate is None and self.optimizer in (None, self._settings.optimizer):
                rate = self._settings.learning_rate
            warmup = min(5 * plan.steps_per_epoch, plan.epochs * plan.steps_per_epoch // 10)
            rate = scaled_learning_rate(rate, fitting.batches_in_step, warmup)
        tf.keras.utils.set_random_seed(self.seed)
        with fitting.scope():
            return mnist_model(
                self.model,
                recipe=self.recipe,
                optimizer=self.optimizer,
                learning_rate=rate,
                dropout=self.dropout,
                seed=self.seed,
                initial_weights=self.initial_weights,
                gradient_accumulation_steps=self.gradient_accumulation_steps,
                steps_per_execution=self.steps_per_execution,
            )

    def _checkpoints(self) -> list[keras.callbacks.Callback]:
        """Return the checkpoint callback that was asked for, or that of a job without one of the caller."""
        if self.checkpoint_every is not None:
            return [checkpoint_callback(every=self.checkpoint_every)]
        task = current_task()
        restarts = int(os.environ.get(MAX_RESTARTS_VARIABLE, "0")) > 0
        evaluated = task is not None and task.cluster.jobs.get("evaluator")
        return job_checkpoints(self.callbacks, every="epoch" if restarts or evaluated else None)

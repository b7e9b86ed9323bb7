"""Patch TensorFlow and Keras when a program imports them, so that it need not import tfmuster."""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib.util
import os
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING

from ..cluster.spec import Task
from ..cluster.tf_config import current_task, is_chief, keep_tf_config, workers_here, workers_together
from ..environment import (
    DISTRIBUTE_VARIABLE,
    IS_CHIEF_VARIABLE,
    PROCESS_VARIABLE,
    SCALE_BATCH_VARIABLE,
    full_workers,
    is_on,
)
from ..errors import StrategyError
from ..options.hints import Hint
from ..system.activity import ACTIVITY
from ..system.say import say
from ..system.tensorflow_import import without_gc
from ..tracking.live.states import State, own_phase, say_state
from ..words import language
from . import reticulate
from .joining_jax import patch_jax

if TYPE_CHECKING:
    import keras


#: The libraries of which the import is a phase of its own.
_LIBRARIES = {"tensorflow": "TensorFlow", "jax": "JAX"}


def install_import_hook(*, keras: bool = True) -> None:
    """Patch TensorFlow and Keras when this process imports them; patch them now if they are imported.

    After ``import tensorflow``, its strategies and servers wait for all tasks at the rendezvous before they
    bind a port, and the workers share a seed. After ``import jax``, so does its distributed runtime, also
    when Keras initializes it. After ``import keras``, Keras is patched, unless
    ``keras`` is False. In any case, neither Keras 3 nor Keras 2 trains a model in one of several workers
    alone (see :mod:`tfmuster.keras_compat.runtime.alone`).
    """
    after_import(
        {
            "tensorflow": _patch_tensorflow,
            "jax": _patch_jax,
            "keras": _prepare_keras if keras else _guard_keras,
            "tf_keras": _prepare_keras_2,
        }
    )


@functools.cache
def guard_training() -> None:
    """Refuse to train a model in one of several workers alone, now or when this process imports Keras."""
    after_import({"tensorflow": _prepare_alone, "keras": _guard_keras, "tf_keras": _guard_keras_2})


def after_import(after: dict[str, Callable[[], None]]) -> None:
    """Call each module's function after this process has imported the module; now if it has."""
    for name in [name for name in after if name in sys.modules]:
        after.pop(name)()
    if after:
        sys.meta_path.insert(0, _AfterImport(after))


@contextlib.contextmanager
def _same_random_numbers() -> Iterator[None]:
    """Undo what an import draws from Python's generator, as rich does, which Keras imports.

    A program has the same numbers wherever it imports Keras, also in a process that had imported it before.
    """
    state = random.getstate()
    try:
        yield
    finally:
        random.setstate(state)


class _AfterImport:
    """A finder that calls a function after certain modules are imported by the other finders."""

    def __init__(self, after: dict[str, Callable[[], None]]) -> None:
        self._after = after
        self._looking: set[str] = set()

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name not in self._after or name in self._looking:
            return None
        # TensorFlow looks for Keras long before it imports it, so act on the import and not on the search.
        self._looking.add(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._looking.discard(name)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            if library := _LIBRARIES.get(name):
                _say_before_training(State("importing", library=library))
            with without_gc(), _same_random_numbers():
                execute(module)
            if then := self._after.pop(name, None):
                then()

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _patch_tensorflow() -> None:
    """Let TensorFlow's own strategies join as :func:`tfmuster.strategy` does."""
    from ..keras_compat import check_releases
    from ..keras_compat.data.order import keep_order
    from ..keras_compat.data.pipelines import patch_shuffle
    from ..keras_compat.runtime.starting import call_when_started, hook_start, name_callers_in_r
    from ..keras_compat.runtime.strategy_patches import patch_strategies
    from ..keras_compat.saving import patch_checkpoints
    from ..rendezvous.task.port_guard import serving
    from ..system.generators import job_seed, seed_tensorflow

    check_releases("tensorflow")
    _guard_loops()
    if (seed := job_seed()) is not None:
        seed_tensorflow(seed)
    keep_tf_config()
    _say_before_training(State("preparing"))
    hook_start()
    call_when_started(_note_facts)
    if "rpytools" in sys.modules:
        name_callers_in_r()
        reticulate.hold()
    patch_shuffle()
    if workers_together() > 1:
        keep_order()
    patch_checkpoints()
    patch_strategies(
        begin=keep_tf_config, before=_join, after=_joined, served=serving, waits=_serve, joins=_joins
    )
    if distributes():
        from ..keras_compat.runtime.distribute import patch_default_strategy

        patch_default_strategy(after=say_distributed)


def _patch_jax() -> None:
    patch_jax()
    _say_before_training(State("preparing"))


def _say_before_training(state: State) -> None:
    """Record what the worker does, unless it has begun to do more.

    Keras on JAX may import TensorFlow while it trains, and so may other processes that the program starts.
    """
    if own_phase() in ("", "importing", "preparing") and os.environ.get(PROCESS_VARIABLE) == str(os.getpid()):
        say_state(state)


def _note_facts() -> None:
    """Note what the run is remembered by, when TensorFlow has started."""
    from .facts import note_machine, note_seed

    note_machine()
    if is_chief():
        # A loop of the program's own has no callback.
        atexit.register(note_seed)


def _join(jobs: dict[str, list[str]], type: str, index: int | None) -> None:
    from ..keras_compat.choices import COMMUNICATION, GRADIENT_DTYPE
    from ..keras_compat.runtime.starting import check_not_started, tensorflow_started
    from ..keras_compat.sums.collectives import prepare_sums, sums_directly
    from ..rendezvous.task.control_channel import ControlChannel
    from ..rendezvous.task.join import join_cluster

    communication = COMMUNICATION.checked()
    control = ControlChannel.current()
    if control is not None and control.active:
        # What joined may not have needed TensorFlow.
        if not tensorflow_started():
            prepare_sums(communication)
        return
    if (task := current_task()) is None:
        return
    _refuse_other_cluster(task, jobs, type, index)
    # Report an invalid environment before waiting for the other workers.
    GRADIENT_DTYPE.checked()
    check_not_started("multi_worker_mirrored")
    join_cluster(task, link=sums_directly(communication))
    prepare_sums(communication)


def _joins() -> bool:
    """Return whether this process trains with others, and its TensorFlow has not started."""
    from ..keras_compat.process import keras_backend
    from ..keras_compat.runtime.starting import tensorflow_started

    if tensorflow_started() or keras_backend() == "jax":
        return False
    # With parameter servers, the program chooses how it joins.
    return workers_together() > 1 and (task := current_task()) is not None and not task.cluster.jobs.get("ps")


def _serve() -> None:
    """End a process that serves a coordinator when the job is over. Without a job, return."""
    from ..rendezvous.task.control_channel import ControlChannel
    from ..rendezvous.task.join import is_worker_process, serve_until_over
    from ..system.process_end import exit_as

    control = ControlChannel.current()
    if control is None or not control.joined or not is_worker_process():
        return
    if control.task.cluster.jobs.get("ps") and not control.task.is_chief:
        say_state(State("serving", serves=True))
        exit_as(serve_until_over(control))


def _refuse_other_cluster(task: Task, jobs: dict[str, list[str]], type: str, index: int | None) -> None:
    """Refuse a cluster that the program names itself, and that is not the one of its job."""
    own_cluster = task.cluster.to_dict()
    # TensorFlow keeps evaluators out of the cluster.
    if any(own_cluster.get(job) != addresses for job, addresses in jobs.items()):
        found = ", ".join(f"{job} {', '.join(addresses)}" for job, addresses in jobs.items())
    elif (type or task.type, task.index if index is None else int(index)) != (task.type, task.index):
        found = f"{type} {index} in {task.name}"
    else:
        return
    raise StrategyError(
        "A strategy or server must use the cluster and the task of this job.",
        found=found,
        fix="leave out cluster_resolver, or take the addresses from TF_CONFIG; arguments of the program can "
        "have {index} and {type}, which stand for each worker's",
        strategy="multi_worker_mirrored",
        reason="other-cluster",
    )


def _joined() -> None:
    from ..rendezvous.task.port_guard import all_connected

    all_connected()
    reticulate.release()
    say_state(State("building"))
    # A loop of the program's own does not say that it computes.
    ACTIVITY.at_next("function", lambda: say_state(State("running")))


def _prepare_alone() -> None:
    from ..keras_compat.runtime.starting import hook_start

    hook_start()
    _guard_loops()


@functools.cache
def _guard_loops() -> None:
    from ..keras_compat.runtime.own_variables import patch_loops

    @functools.cache
    def coordinates() -> bool:
        # With parameter servers, one process has all gradients.
        task = current_task()
        return task is not None and bool(task.cluster.jobs.get("ps"))

    patch_loops(lambda: 0 if (workers := workers_together()) < 2 or coordinates() else workers)


def _guard_keras(package: str = "keras") -> None:
    from ..keras_compat.calls import refuse_alone

    refuse_alone(workers_together, package)


_guard_keras_2 = functools.partial(_guard_keras, "tf_keras")


def _prepare_keras() -> None:
    from ..keras_compat.steps.callbacks import patch_callback_list
    from ..rendezvous.task.agreement import prepare_keras

    if prepare_keras():
        patch_callback_list(_more_callbacks)
    _guard_keras()
    if distributes():
        distribute("keras")


def _prepare_keras_2() -> None:
    _guard_keras_2()
    if distributes():
        distribute("tf_keras")


def _more_callbacks(present: Sequence[keras.callbacks.Callback]) -> list[keras.callbacks.Callback]:
    """Return the callbacks that every ``fit`` of a worker gets, even without importing tfmuster."""
    from .progress import progress_callback, saving_callback, trial_callback

    more = trial_callback() + (saving_callback(present) if distributes() else [])
    if not any(getattr(callback, "notes_progress", False) for callback in present):
        more += progress_callback()
    return more


def distributes() -> bool:
    """Return whether several workers, even if lost by now, train the program together as it is."""
    workers = workers_here()
    return is_on(DISTRIBUTE_VARIABLE) and workers > 0 and full_workers(workers) > 1


def distribute(package: str) -> None:
    """Prepare the imported ``keras`` or ``tf_keras`` for the strategy that will be the default one."""
    from ..keras_compat.calls import scale_batches
    from ..keras_compat.runtime.distribute import require_tensorflow

    require_tensorflow(package)
    if is_on(SCALE_BATCH_VARIABLE):
        scale_batches(package)


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

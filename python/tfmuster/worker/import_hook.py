"""Patch TensorFlow and Keras when a program imports them, so that it need not import tfmuster."""

from __future__ import annotations

import contextlib
import importlib.util
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import StrategyError
from ..system.tensorflow_import import without_gc
from . import load_hooks
from .distribute import distribute, distributes, saving_callback, say_distributed
from .joining_jax import watch_jax

if TYPE_CHECKING:
    from ..cluster.spec import Task


def install_import_hook(*, keras: bool = True) -> None:
    """Patch TensorFlow and Keras when this process imports them; patch them now if they are imported.

    After ``import tensorflow``, its strategies and servers wait for all tasks at the rendezvous before they
    bind a port, and the workers share a seed. After ``import jax``, so does its distributed runtime, also
    when Keras initializes it. After ``import keras``, Keras is patched, unless
    ``keras`` is False. In any case, neither Keras 3 nor Keras 2 trains a model in one of several workers
    alone (see :mod:`tfmuster.keras_compat.runtime.alone`).
    """
    from ..tracking.live.states import say_phase

    if "tensorflow" not in sys.modules:
        say_phase("importing")
    _after_import(
        {
            "tensorflow": _watch_strategy,
            "jax": watch_jax,
            "keras": _prepare_keras if keras else _watch_training,
            "tf_keras": _prepare_keras_2,
        }
    )


def watch_training() -> None:
    """Refuse to train a model in one of several workers alone, now or when this process imports Keras."""
    if not _watching:
        _watching.append(True)
        _after_import(
            {"tensorflow": _watch_start, "keras": _watch_training, "tf_keras": _watch_training_in_keras_2}
        )


_watching: list[bool] = []


def _after_import(after: dict[str, Callable[[], None]]) -> None:
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

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
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

        def exec_module(module: Any) -> None:
            with without_gc(), _same_random_numbers():
                execute(module)
            if then := self._after.pop(name, None):
                then()

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _watch_strategy() -> None:
    """Let TensorFlow's own strategies join as :func:`tfmuster.strategy` does."""
    from ..cluster.tf_config import keep_tf_config
    from ..keras_compat import check_releases
    from ..keras_compat.data.pipelines import patch_shuffle
    from ..keras_compat.runtime.deprecation import name_callers_in_r
    from ..keras_compat.runtime.starting import watch_start
    from ..keras_compat.runtime.strategy_hooks import patch_strategies
    from ..keras_compat.saving import patch_checkpoints
    from ..rendezvous.task.port_guard import serving
    from ..system.generators import job_seed, seed_tensorflow
    from ..tracking.live.states import say_phase

    check_releases("tensorflow")
    if (seed := job_seed()) is not None:
        seed_tensorflow(seed)
    keep_tf_config()
    say_phase("starting")
    watch_start()
    if "rpytools" in sys.modules:
        name_callers_in_r()
        load_hooks.hold()
    patch_shuffle()
    patch_checkpoints()
    patch_strategies(
        begin=keep_tf_config, before=_join, after=_joined, served=serving, waits=_serve, joins=_joins
    )
    if distributes():
        from ..keras_compat.runtime.distribute import watch_tensorflow

        watch_tensorflow(made=say_distributed)


def _join(jobs: dict[str, list[str]], type: str, index: int | None) -> None:
    from ..cluster.tf_config import current_task
    from ..keras_compat import check_not_started
    from ..keras_compat.sums.collectives import checked_communication, prepare_sums, sums_directly
    from ..keras_compat.sums.gradients import wanted_dtype
    from ..rendezvous.task.control_channel import ControlChannel
    from ..rendezvous.task.join import join_cluster

    control = ControlChannel.current()
    if control is not None and control.active:
        return
    if (task := current_task()) is None:
        return
    _refuse_other_cluster(task, jobs, type, index)
    # Report an invalid environment before waiting for the other workers.
    wanted_dtype()
    communication = checked_communication("auto")
    check_not_started("multi_worker_mirrored")
    join_cluster(task, link=sums_directly(communication))
    prepare_sums(communication)


def _joins() -> bool:
    """Tell whether this process is one of several workers that train together and have not joined yet."""
    from ..cluster.tf_config import current_task
    from ..cluster.together import workers_together
    from ..keras_compat import tensorflow_started
    from ..rendezvous.task.control_channel import ControlChannel

    if ControlChannel.current() is not None or tensorflow_started():
        return False
    # With parameter servers, the program chooses how it joins.
    return workers_together() > 1 and (task := current_task()) is not None and not task.cluster.jobs.get("ps")


def _serve() -> None:
    """End the process of a parameter server when the job is over. Without a job, return."""
    from ..rendezvous.task.control_channel import ControlChannel
    from ..rendezvous.task.join import is_worker_process
    from ..rendezvous.task.serving_end import exit_at_once, serve_until_over

    control = ControlChannel.current()
    if control is None or not control.joined or control.task.type != "ps" or not is_worker_process():
        return
    exit_at_once(serve_until_over(control))


def _refuse_other_cluster(task: Task, jobs: dict[str, list[str]], type: str, index: int | None) -> None:
    """Refuse a cluster that the program names itself, and that is not the one of its job."""
    given = task.cluster.to_dict()
    # TensorFlow keeps evaluators out of the cluster.
    if any(given.get(job) != addresses for job, addresses in jobs.items()):
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
    from ..tracking.live.states import say_phase

    all_connected()
    load_hooks.release()
    say_phase("building")


def _watch_start() -> None:
    from ..keras_compat.runtime.starting import watch_start

    watch_start()


def _watch_training() -> None:
    from ..cluster.together import workers_together
    from ..keras_compat.calls import refuse_alone

    refuse_alone(workers_together)


def _watch_training_in_keras_2() -> None:
    from ..cluster.together import workers_together
    from ..keras_compat.calls import refuse_alone

    refuse_alone(workers_together, "tf_keras")


def _prepare_keras() -> None:
    from ..keras_compat.steps.callbacks import patch_callback_list
    from ..rendezvous.wiring import prepare_keras

    if prepare_keras():
        patch_callback_list(_more_callbacks)
    _watch_training()
    if distributes():
        distribute("keras")


def _prepare_keras_2() -> None:
    _watch_training_in_keras_2()
    if distributes():
        distribute("tf_keras")


def _more_callbacks(present: Sequence[Any]) -> list[Any]:
    """Return the callbacks that every ``fit`` of a worker gets, even without importing tfmuster."""
    from .progress import progress_callback
    from .trial import trial_callback

    more = trial_callback() + saving_callback(present)
    if not any(getattr(callback, "notes_progress", False) for callback in present):
        more += progress_callback()
    return more

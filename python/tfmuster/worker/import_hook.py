"""Patch TensorFlow and Keras when a program imports them, so that it need not import tfmuster."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from typing import Any

from ..system.tensorflow_import import without_gc


def install_import_hook(*, keras: bool = True) -> None:
    """Patch TensorFlow and Keras when this process imports them; patch them now if they are imported.

    After ``import tensorflow``, a ``MultiWorkerMirroredStrategy`` waits for all workers at the rendezvous
    before it binds a port, and its workers share a seed. After ``import keras``, Keras is patched, unless
    ``keras`` is False.
    """
    from ..runs.states import say_phase

    if "tensorflow" not in sys.modules:
        say_phase("importing")
    after = {"tensorflow": _watch_strategy}
    if keras:
        after["keras"] = _repair_keras
    for name in [name for name in after if name in sys.modules]:
        after.pop(name)()
    if after:
        sys.meta_path.insert(0, _AfterImport(after))


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
            with without_gc():
                execute(module)
            if then := self._after.pop(name, None):
                then()

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _watch_strategy() -> None:
    """Let a plain ``tf.distribute.MultiWorkerMirroredStrategy()`` join as :func:`tfmuster.strategy` does."""
    from ..keras_compat.callbacks import patch_strategy
    from ..runs.states import say_phase

    say_phase("starting")
    patch_strategy(before=_join, after=lambda: say_phase("building"))


def _join() -> None:
    from ..cluster.tf_config import current_task
    from ..keras_compat.gradients import wanted_dtype
    from ..rendezvous.join import join_cluster

    if (task := current_task()) is not None:
        # Report an invalid environment before waiting for the other workers.
        wanted_dtype()
        join_cluster(task)


def _repair_keras() -> None:
    from ..keras_compat import apply
    from ..keras_compat.callbacks import patch_callback_list

    if apply():
        patch_callback_list(_more_callbacks)


def _more_callbacks(present: Sequence[Any]) -> list[Any]:
    """Return the callbacks that every ``fit`` of a worker gets, even without importing tfmuster."""
    from .progress import progress_callback
    from .trial import trial_callback

    more = trial_callback()
    if not any(getattr(callback, "notes_progress", False) for callback in present):
        more += progress_callback()
    return more

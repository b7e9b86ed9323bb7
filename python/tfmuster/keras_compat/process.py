"""What this process is: its worker, its strategy, the backend of its Keras, and who is told its decisions."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from ..environment import full_workers
from ..errors import StrategyError
from . import seams

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

    from ..system.register import Seam

Listener = Callable[..., None]


class Difference(Protocol):
    """An entry of the documents that is not equal on all workers; its text has the values."""

    @property
    def name(self) -> str:
        """Its name in the documents."""

    @property
    def values(self) -> Sequence[tuple[Any, Sequence[str]]]:
        """Each value, and the tasks that have it."""


class Agreement(Protocol):
    """What a comparison of documents of all workers says."""

    @property
    def differences(self) -> Sequence[Difference]:
        """What differs between workers."""

    @property
    def absent(self) -> Mapping[str, str]:
        """What the workers do that take no part, by task."""


@dataclasses.dataclass
class ProcessState:
    """What a process of a job has, one of each."""

    #: The strategy that connects it to others; TensorFlow allows only one. None before it is made.
    strategy: Any = None
    #: The `Task` of the strategy that the program has made by `tfmuster.strategy`, and how it sums.
    task: Any = None
    communication: str = "auto"
    #: Whether a default strategy of the program is being made, or has been (``launch --distribute``).
    makes_default: bool = False
    default: Any = None
    #: Whether gradients, or values inside of a step, have been added over the workers.
    adds_up: bool = False
    #: Compares the calls of all workers, by a name, a document, and a ``timeout`` in seconds if they need not
    #: come; None if nothing is compared.
    compare: Callable[..., Agreement] | None = None
    #: Called when another worker has aborted a sum; it raises that worker's failure if it learns of one.
    raise_cause: Callable[[], None] | None = None
    #: Whether the workers' machines have been compared.
    machines_agree: bool = False
    #: Who is told what is decided for the program, and what has been told.
    listeners: list[Listener] = dataclasses.field(default_factory=list)
    told: set[tuple[str, str]] = dataclasses.field(default_factory=set)
    #: The backends of Keras for which it is patched.
    installed: set[str] = dataclasses.field(default_factory=set)
    #: Optional rows of the register that the installed releases lack.
    features_off: list[Seam] = dataclasses.field(default_factory=list)
    #: The line of the program that has started TensorFlow.
    started_by: str | None = None


PROCESS: Final = ProcessState()


def multi_worker(strategy: object) -> bool:
    """Return whether ``strategy`` is a MultiWorkerMirroredStrategy with a cluster."""
    # The classes of TensorFlow 2 and of compat.v1 have only this part in common.
    extended = getattr(strategy, "extended", None)
    return isinstance(extended, seams.COLLECTIVE.get()) and seams.IN_MULTI_WORKER_MODE.of(extended)()


def in_multi_worker_strategy(model: keras.Model) -> bool:
    """Return whether a Keras model trains under such a strategy."""
    return multi_worker(seams.MODEL_STRATEGY.of(model, None))


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Return whether this process prints results and writes files under ``strategy``, or on JAX."""
    if (index := jax_process_index()) is not None:
        return index == 0
    # Don't import TensorFlow for None or another object: it may not be loaded.
    if type(strategy).__module__.partition(".")[0] != "tensorflow" or not multi_worker(strategy):
        return True
    resolver = strategy.cluster_resolver
    chief = "chief" in resolver.cluster_spec().jobs
    return bool(resolver.task_type == "chief" or (not chief and resolver.task_id == 0))


def batches_in_step(strategy: tf.distribute.Strategy) -> int:
    """Return how many replicas' batches a step has: of all, and if hosts are lost, of as many as before."""
    workers = worker_of(strategy)[1] if multi_worker(strategy) else 1
    return int(strategy.num_replicas_in_sync) // workers * full_workers(workers)


def worker_of(strategy: tf.distribute.Strategy) -> tuple[int, int]:
    """Return this worker's index among the training tasks, and their number."""
    context = seams.MAKE_INPUT_CONTEXT.of(strategy.extended)()
    return context.input_pipeline_id, context.num_input_pipelines


def keras_backend() -> str:
    """Return the backend that Keras has, or will have when this process imports it."""
    if (keras := sys.modules.get("keras")) is not None:
        # Keras 2 has no other backend, and a Keras that is being imported doesn't tell.
        backend = getattr(getattr(keras, "config", None), "backend", None)
        if backend is not None:
            return str(backend())
    if chosen := os.environ.get("KERAS_BACKEND"):
        return chosen
    folder = os.environ.get("KERAS_HOME") or "~/.keras"
    try:
        settings = json.loads(Path(folder, "keras.json").expanduser().read_text(encoding="utf-8"))
        return str(settings["backend"])
    except (OSError, ValueError, KeyError, TypeError):
        return "tensorflow"


def uses_keras_2() -> bool:
    """Return whether the environment lets TensorFlow use Keras 2, the package ``tf_keras``."""
    return os.environ.get("TF_USE_LEGACY_KERAS", "").lower() in ("1", "true")


def require_tensorflow_backend(function: str, fix: str) -> None:
    """Raise a StrategyError, with what to do on JAX (``fix``), if Keras is not on TensorFlow."""
    backend = keras_backend()
    if backend != "tensorflow" and not uses_keras_2():
        raise StrategyError(
            f"{function} is for Keras on TensorFlow.",
            found=f"the backend {backend}",
            fix=f"on JAX, {fix}" if backend == "jax" else "set KERAS_BACKEND=tensorflow",
            strategy="default",
            reason="backend",
        )


def listen(listener: Listener) -> None:
    """Call ``listener(about, text, **fields)`` for every note from now on."""
    if listener not in PROCESS.listeners:
        PROCESS.listeners.append(listener)


def tell(about: str, text: str, **fields: object) -> None:
    """Tell a note, unless the same was told before."""
    if (about, text) not in PROCESS.told:
        PROCESS.told.add((about, text))
        for listener in PROCESS.listeners:
            listener(about, text, **fields)


def jax_process_index() -> int | None:
    """Return the index of this process among those of JAX; None if JAX has not connected it to others."""
    jax: Any = sys.modules.get("jax")
    # TensorFlow imports JAX, too, if it is installed.
    if jax is None or not hasattr(jax, "distributed"):
        return None
    state = seams.JAX_STATE.get()
    return state.process_id if state.client is not None and state.num_processes > 1 else None


def send_bytes_in_jax(content: bytes | None) -> bytes | None:
    """Return the ``content`` of process 0 in every process. All processes must call it."""
    import numpy as np
    from jax.experimental import multihost_utils

    size = int(multihost_utils.broadcast_one_to_all(np.int32(-1 if content is None else len(content))))
    if size < 0:
        return None
    sent = content if jax_process_index() == 0 and content is not None else bytes(size)
    return bytes(np.asarray(multihost_utils.broadcast_one_to_all(np.frombuffer(sent, np.uint8))))


def spans_all_processes(distribution: keras.distribution.Distribution) -> bool:
    """Return whether a ``keras.distribution`` has devices of every process."""
    import jax

    devices = distribution.device_mesh.backend_mesh.devices.flat
    return len({device.process_index for device in devices}) == int(jax.process_count())

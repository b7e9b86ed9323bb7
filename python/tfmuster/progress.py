"""What each worker is doing, in words, for whoever watches: ``states/worker-0.json`` in the run directory.

A worker of ``tfmuster launch`` writes its own file, and nothing else anywhere else; the launcher's table and
``tfmuster runs show`` read all of them. No process waits for another because of it.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .errors import TfmusterError
from .events import note_phase
from .reporting import append_metrics, numbers
from .runs import RUN_DIR_VARIABLE, STATES, read_json, write_json
from .tf_config import current_task
from .trial import trial_callback

#: A step more is no news within this time, seconds.
_EVERY_SECONDS = 1.0
#: Names shown of those who are waited for.
_MOST_NAMES = 8
_phases: dict[Path, str] = {}


def say_state(text: str, *, serves: bool = False) -> None:
    """Note what this process does now, if it is a worker of ``tfmuster launch``.

    What can't be written is left: a state is worth no failure.

    Parameters
    ----------
    text : str
        In words.
    serves : bool
        Whether this process serves those that train, and ends by itself when they are done.
    """
    if path := _own_path():
        _note_phase(path, text.partition(" ")[0])
        with contextlib.suppress(OSError):
            path.parent.mkdir(exist_ok=True)
            write_json(path, {"text": text, "time": time.time(), "serves": serves})


def say_phase(phase: str) -> None:
    """Note that this process begins to do something that is no news to whoever watches."""
    if path := _own_path():
        _note_phase(path, phase)


def _note_phase(path: Path, phase: str) -> None:
    """Note when this process began to do something else."""
    if _phases.get(path) != phase:
        _phases[path] = phase
        note_phase(path.parent.parent, path.stem.replace("-", " "), phase)


def say_waiting(progress: Mapping[str, Any]) -> None:
    """Note for whom the rendezvous waits, by what it tells of its progress."""
    names = list(progress.get("waiting", ()))
    if not names:
        say_state("starting" if "waiting" in progress else str(progress["text"]))
        return
    shown = ", ".join(names[:_MOST_NAMES])
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    say_state(f"waiting for {shown}{more}")


def progress_callback(images_per_step: int | None = None) -> list[Any]:
    """A Keras callback that notes epoch, step, loss and speed, at most once a second.

    Parameters
    ----------
    images_per_step : int, optional
        Images of a step on all workers; with it the speed is in images/s, else in steps/s.

    Returns
    -------
    list of keras.callbacks.Callback
        Empty where nobody would read it.
    """
    if _own_path() is None:
        return []
    import keras

    class Progress(keras.callbacks.Callback):  # type: ignore[misc]
        # Keras calls it in another thread then, and goes on with the next step.
        async_safe = True
        notes_progress = True
        needs_batches = False

        def __init__(self) -> None:
            super().__init__()
            self._lock = threading.Lock()
            self._next = 0.0
            self._epoch = 0
            self._first: tuple[int, float] | None = None

        def on_train_begin(self, logs: Any = None) -> None:
            # The first step, which builds the graph, may take long.
            say_state("tracing")

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self._epoch, self._first = epoch + 1, None

        def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
            with self._lock:
                now = time.monotonic()
                # The speed is that of the steps after the first, which may have built the graph.
                self._first = first, since = self._first or (batch, now)
                if now < self._next:
                    return
                self._next = now + _EVERY_SECONDS
            speed = self._speed((batch - first) / (now - since)) if batch > first else ""
            epoch, step = self._of(self._epoch, "epochs"), self._of(batch + 1, "steps")
            metrics = "".join(f"  {name} {value:.4f}" for name, value in _first(logs or {}))
            say_state(f"training  epoch {epoch}  step {step}{metrics}{speed}")

        def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
            # `train_mnist` writes them itself.
            if is_chief() and not images_per_step:
                shown = (self.params or {}).get("verbose") not in (0, None)
                append_metrics(epoch + 1, logs or {}, shown=shown)

        def on_train_end(self, logs: Any = None) -> None:
            say_state("trained")

        def _speed(self, steps: float) -> str:
            return (
                f"  {steps * images_per_step:,.0f} images/s" if images_per_step else f"  {steps:.1f} steps/s"
            )

        def _of(self, number: int, name: str) -> str:
            total = (self.params or {}).get(name)
            return f"{number}/{total}" if total else str(number)

    return [Progress()]


def patch_callback_list(callback_list: Any) -> None:
    """Give every ``fit`` of a worker this callback, also that of a program that never heard of tfmuster."""
    stock_init = callback_list.__init__

    @functools.wraps(stock_init)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        stock_init(self, *args, **kwargs)
        more = trial_callback()
        if not any(getattr(callback, "notes_progress", False) for callback in self.callbacks):
            more += progress_callback()
        for callback in more:
            callback.set_params(self.params)
            callback.set_model(self.model)
            self.callbacks.append(callback)

    callback_list.__init__ = init


def read_states(run_dir: Path) -> dict[str, str]:
    """What each task has noted last, by the task's name, such as ``worker 0``."""
    return {task: str(said["text"]) for task, said in _read_all(run_dir).items() if "text" in said}


def read_serving(run_dir: Path) -> set[str]:
    """The tasks that have said that they serve others, and end by themselves."""
    return {task for task, said in _read_all(run_dir).items() if said.get("serves")}


def _read_all(run_dir: Path) -> dict[str, dict[str, Any]]:
    paths = run_dir.joinpath(STATES).glob("[a-z]*.json")
    return {path.stem.replace("-", " "): read_json(path) for path in paths}


def forget_states(run_dir: Path) -> None:
    """Remove what tasks of an earlier attempt have noted."""
    for path in run_dir.joinpath(STATES).glob("*.json"):
        path.unlink(missing_ok=True)


def _first(logs: Mapping[str, Any]) -> list[tuple[str, float]]:
    """The loss and the first metric."""
    return sorted(numbers(logs).items(), key=lambda item: item[0] != "loss")[:2]


def is_chief() -> bool:
    """Whether this process is the chief of its cluster, or alone."""
    with contextlib.suppress(TfmusterError):
        task = current_task()
        return task is None or task.is_chief
    return False


def _own_path() -> Path | None:
    folder, place = os.environ.get(RUN_DIR_VARIABLE), os.environ.get("TF_CONFIG")
    return _path(folder, place) if folder and place else None


@functools.lru_cache(maxsize=1)
def _path(folder: str, tf_config: str) -> Path | None:
    """The file of the task that `tf_config` names; the text may be long, and is read each second."""
    with contextlib.suppress(TfmusterError):
        if task := current_task({"TF_CONFIG": tf_config}):
            return Path(folder, STATES, f"{task.name.replace(' ', '-')}.json")
    return None

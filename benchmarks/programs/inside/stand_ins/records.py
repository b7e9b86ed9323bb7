"""What each training, evaluation and prediction of a program returned, and the weights after it."""

from __future__ import annotations

import functools
import inspect
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import keras
import numpy as np

from .limits import shorten

CALLS = ("fit", "evaluate", "predict", "train_on_batch", "test_on_batch", "predict_on_batch")
#: Elements that are kept of a weight or of predictions.
_KEPT = 20000


class _Recorder:
    """The files of this process: what each call returned, and the weights before and after it."""

    def __init__(self) -> None:
        task = json.loads(os.environ.get("TF_CONFIG") or "{}").get("task", {})
        self.worker = task.get("index", 0)
        self.folder = Path(os.environ["PROGRAMS_RECORDS"])
        self.calls = 0
        self.depth = 0
        #: The program ends after so many calls: those that one process made in its time.
        self.most = int(os.environ.get("PROGRAMS_CALLS", "40"))
        self.until = time.monotonic() + float(os.environ.get("PROGRAMS_SECONDS", "1e9"))
        self.done = False

    def record(self, name: str, model: Any, before: Any, result: Any) -> None:
        arrays = {f"before/{i}": value for i, value in enumerate(before)}
        arrays |= {f"weight/{i}": value for i, value in enumerate(sketches(model))}
        arrays |= {f"result/{key}": kept(value) for key, value in _flat(result)}
        np.savez(self.folder / f"call-{self.calls:03}-{name}-{self.worker}.npz", **arrays)
        self.calls += 1

    def check_end(self) -> None:
        """End the program after its last call: what follows may not run here."""
        if self.calls >= self.most or time.monotonic() > self.until:
            finish("stopped")
            sys.exit(0)


_RECORDER: list[_Recorder] = []


def record_calls() -> None:
    """Shorten and record every call of :data:`CALLS` that the program makes itself."""
    _RECORDER.append(_Recorder())
    for name in CALLS:
        setattr(keras.Model, name, _recorded(name, getattr(keras.Model, name)))


def _recorded(name: str, stock: Any) -> Any:
    takes = inspect.signature(stock)

    @functools.wraps(stock)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        recorder = _RECORDER[0]
        if recorder.depth:
            return stock(self, *args, **kwargs)
        given = shorten(name, takes.bind(self, *args, **kwargs))
        before = sketches(self) if self.built else []
        recorder.depth += 1
        try:
            result = stock(*given.args, **given.kwargs)
        finally:
            recorder.depth -= 1
        recorder.record(name, self, before, result)
        recorder.check_end()
        return result

    return call


def finish(how: str = "ended") -> None:
    """Record the weights of all models that the program has left."""
    recorder = _RECORDER[0]
    if recorder.done:
        return
    recorder.done = True
    if how == "ended":
        models = {
            name: value for name, value in sorted(vars(sys.modules["__main__"]).items()) if _trains(value)
        }
        arrays = {f"{name}/{i}": value for name in models for i, value in enumerate(sketches(models[name]))}
        np.savez(recorder.folder / f"end-{recorder.worker}.npz", **arrays)
    about = {"calls": recorder.calls, "how": how}
    (recorder.folder / f"done-{recorder.worker}.json").write_text(json.dumps(about))


def _trains(value: Any) -> bool:
    import tensorflow as tf

    kinds = (keras.Layer, tf.Module)
    return any(kind in type(value).__mro__ for kind in kinds) and not isinstance(value, type)


def sketches(model: Any) -> list[Any]:
    """Return a part of each weight."""
    weights = model.weights if isinstance(model, keras.Layer) else model.trainable_variables
    return [kept(value) for value in weights]


def kept(value: Any) -> Any:
    """Return an array, or 20,000 of its elements, taken evenly."""
    array = np.asarray(keras.ops.convert_to_numpy(value) if hasattr(value, "dtype") else value)
    if array.dtype.name == "bfloat16":
        array = array.astype("float32")
    if array.dtype == object:
        return np.asarray(str(array.tolist())[:2000])
    step = -(-array.size // _KEPT)
    return array if step <= 1 else array.reshape(-1)[::step]


def _flat(result: Any) -> list[tuple[str, Any]]:
    if isinstance(result, keras.callbacks.History):
        return [(key, np.asarray(value)) for key, value in result.history.items()]
    if isinstance(result, dict):
        return [(str(key), value) for key, value in result.items()]
    if isinstance(result, list | tuple):
        return [(str(i), value) for i, value in enumerate(result)]
    return [("0", result)]
